'use strict';
// The page of a run: F and A of heads, the text and the losses, from the numbers that stand in the page itself.
// Position p reads one token and predicts the next: maps are about what is read, losses about what is predicted.
(() => {
  const page = JSON.parse(document.getElementById('data').textContent);
  const byId = (id) => document.getElementById(id);
  const clamp = (x, low, high) => Math.min(Math.max(x, low), high);

  /* ---------- Numbers ---------- */

  const fromBase64 = (text) => {
    if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
    const letters = atob(text);
    const bytes = new Uint8Array(letters.length);
    for (let n = 0; n < bytes.length; ++n) bytes[n] = letters.charCodeAt(n);
    return bytes;
  };

  /** What F needs stands before this script, all else behind it. */
  const parsed = new Promise((done) => document.addEventListener('DOMContentLoaded', done, { once: true }));
  const inflated = new Map();
  /** Read part by part: as a Response it would take thirty times as long. */
  async function inflate(packed) {
    const stream = new DecompressionStream('deflate-raw');
    const writer = stream.writable.getWriter();
    writer.write(packed);
    writer.close();
    const reader = stream.readable.getReader();
    const parts = [];
    for (let part = await reader.read(); !part.done; part = await reader.read()) parts.push(part.value);
    const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
    let at = 0;
    for (const part of parts) {
      bytes.set(part, at);
      at += part.length;
    }
    return bytes;
  }
  /** The bytes of a block, inflated once. */
  function block(id) {
    if (!inflated.has(id)) {
      inflated.set(id, (async () => {
        if (!byId(`block-${id}`)) await parsed;
        return inflate(fromBase64(byId(`block-${id}`).textContent));
      })());
    }
    return inflated.get(id);
  }

  /** Puts together what lies apart: all first bytes, all second bytes and so on, little-endian. */
  function joined(bytes, size) {
    const count = bytes.length / size;
    const out = new Uint8Array(bytes.length);
    for (let part = 0; part < size; ++part) {
      for (let n = 0, at = part * count; n < count; ++n) out[n * size + part] = bytes[at + n];
    }
    return out.buffer;
  }
  const float64 = async (id) => new Float64Array(joined(await block(id), 8));
  const float32 = async (id) => new Float32Array(joined(await block(id), 4));

  /** Queries or keys, [L, d] float32, of whole numbers that lie channel by channel, each channel with its step. */
  async function channels(of, length) {
    const bytes = await block(of.block);
    const dim = of.steps.length;
    const count = length * dim;
    const out = new Float32Array(count);
    for (let channel = 0, n = 0; channel < dim; ++channel) {
      const step = of.steps[channel];
      for (let position = 0; position < length; ++position, ++n) {
        const whole = of.bytes === 2 ? bytes[n] | (bytes[count + n] << 24) >> 16
          : bytes[n] | bytes[count + n] << 8 | (bytes[2 * count + n] << 24) >> 8;
        out[position * dim + channel] = whole * step;
      }
    }
    return out;
  }

  /** P of each channel, [L, d] nats: sums of float32 steps, or float64. */
  async function sums(of, length, dim) {
    if (of.number === 'float64') return float64(of.block);
    const steps = await float32(of.block);
    const out = new Float64Array(steps.length);
    for (let n = 0; n < out.length; ++n) out[n] = (n < dim ? 0 : out[n - dim]) + steps[n];
    return out;
  }

  class Model {
    constructor(spec, number) {
      Object.assign(this, spec);
      this.number = number;
      this.heads = spec.heads.map((head) => new Head(this, head));
      this.tokens = page.tokens[spec.tokens];
      this.losses = null;
    }
    async load() {
      if (this.loss !== null) this.losses = await float32(this.loss);
    }
    head(layer, head) {
      const found = this.heads.find((one) => one.layer === layer && one.head === head);
      if (found) return found;
      const there = this.heads.map((one) => `${one.layer}:${one.head}`).join(', ');
      throw new RangeError(`${this.name}: head ${layer}:${head} is not in this page: it holds ${there}`);
    }
    /** An entry of one quantity: forget, log_forget, attention or mixing; NaN where the query does not see the key. */
    value(quantity, layer, head, query, key) {
      return this.head(layer, head).value(quantity, query, key);
    }
  }

  class Head {
    constructor(model, spec) {
      Object.assign(this, spec);
      this.model = model;
      this.length = model.length;
      this.loading = null;
      this.gates = null;  // c, [L] float64
      this.scratch = null;
    }

    get hasMixing() { return this.no_mixing === undefined; }
    get hasDecay() { return this.no_decay === undefined; }
    get forgets() { return this.hasDecay && (this.c !== null || this.decays !== undefined); }
    get signed() { return !this.softmax; }
    get name() { return `L${this.layer} H${this.head}`; }

    /** What F needs. */
    loadDecay() {
      this.loadingDecay ??= (async () => {
        if (this.c !== null) this.gates = await float64(this.c);
        if (this.decays) {
          if (this.decays.rates) {
            const rates = this.decays.rates;
            const dim = rates.length;
            this.sums = new Float64Array(this.length * dim);
            for (let p = 0, n = 0; p < this.length; ++p) {
              for (let a = 0; a < dim; ++a, ++n) this.sums[n] = rates[a] * this.gates[p];
            }
          } else {
            this.sums = await sums(this.decays, this.length, this.decays.channels);
          }
        }
        return this;
      })();
      return this.loadingDecay;
    }

    load() {
      this.loading ??= (async () => {
        await this.loadDecay();
        if (!this.hasMixing) return this;
        [this.queries, this.keys] = await Promise.all([channels(this.q, this.length), channels(this.k, this.length)]);
        if (this.lse !== null) this.normalizer = await float32(this.lse);
        if (this.beta !== null) this.written = await float32(this.beta);
        this.dim = this.q.steps.length;
        return this;
      })();
      return this.loading;
    }

    /** The first key that a query sees. */
    firstKey(query) { return this.window > 0 ? Math.max(0, query - this.window + 1) : 0; }
    sees(query, key) { return key <= query && key >= this.firstKey(query); }

    logForget(query, key) {
      if (this.sums) {
        const dim = this.sums.length / this.length;
        let mean = 0;
        for (let a = 0; a < dim; ++a) mean += this.sums[query * dim + a] - this.sums[key * dim + a];
        return mean / dim;
      }
      return this.gates ? this.gates[query] - this.gates[key] : 0;
    }

    /** F(query, key): exp(c_query - c_key), or where each channel decays the mean over channels. */
    forget(query, key) {
      if (!this.sums) return this.gates ? Math.exp(this.gates[query] - this.gates[key]) : 1;
      const dim = this.sums.length / this.length;
      let sum = 0;
      for (let a = 0; a < dim; ++a) sum += Math.exp(this.sums[query * dim + a] - this.sums[key * dim + a]);
      return sum / dim;
    }

    /** The largest F of queries [q0, q1) and keys [k0, k1): c never increases, so it is that of the nearest pair. */
    largestForget(q0, q1, k0, k1) {
      const query = Math.max(q0, Math.min(k1, q1) - 1);
      const key = Math.min(query, k1 - 1);
      return key >= k0 && this.sees(query, key) ? this.forget(query, key) : NaN;
    }

    dot(query, key) {
      const { queries, keys, dim } = this;
      let a = 0, b = 0, c = 0, d = 0, n = query * dim, m = key * dim;
      const end = n + (dim & ~3);
      for (; n < end; n += 4, m += 4) {
        a += queries[n] * keys[m];
        b += queries[n + 1] * keys[m + 1];
        c += queries[n + 2] * keys[m + 2];
        d += queries[n + 3] * keys[m + 3];
      }
      for (const last = (query + 1) * dim; n < last; ++n, ++m) a += queries[n] * keys[m];
      return (a + b) + (c + d);
    }

    /** A of softmax attention, or M of a linear mixer, of one query and keys [from, to) that it sees, into out[0...]. */
    row(query, from, to, out) {
      if (!this.softmax) return this.mixingRow(query, from, to, out);
      const { gates, scale, cap } = this;
      const base = (gates ? gates[query] : 0) - this.normalizer[query];
      for (let key = from; key < to; ++key) {
        let logit = this.dot(query, key) * scale;
        if (cap) logit = cap * Math.tanh(logit / cap);
        out[key - from] = Math.exp(logit + base - (gates ? gates[key] : 0));
      }
    }

    /** M: r = q_i; for j = i, i - 1, ...: M_ij = beta_j r.k_j, r <- a_j (r - M_ij k_j) of the delta rule, else a_j r. */
    mixingRow(query, from, to, out) {
      const { keys, dim, gates, written } = this;
      if (!this.erases && !this.sums) {
        for (let key = from; key < to; ++key) {
          const decay = gates ? Math.exp(gates[query] - gates[key]) : 1;
          out[key - from] = (written ? written[key] : 1) * decay * this.dot(query, key);
        }
        return;
      }
      const r = this.scratch ??= new Float64Array(dim);
      for (let a = 0; a < dim; ++a) r[a] = this.queries[query * dim + a];
      const alpha = this.sums ? (this.alpha ??= this.decaysOf()) : null;
      for (let key = query; key >= from; --key) {
        let entry = 0;
        const at = key * dim;
        for (let a = 0; a < dim; ++a) entry += r[a] * keys[at + a];
        if (written) entry *= written[key];
        if (key < to) out[key - from] = entry;
        if (key === from) return;
        const erased = this.erases ? entry : 0;
        if (alpha) {
          for (let a = 0; a < dim; ++a) r[a] = alpha[at + a] * (r[a] - erased * keys[at + a]);
        } else {
          const decay = gates ? Math.exp(gates[key] - gates[key - 1]) : 1;
          for (let a = 0; a < dim; ++a) r[a] = decay * (r[a] - erased * keys[at + a]);
        }
      }
    }

    /** a of each channel, [L, d]. */
    decaysOf() {
      const { sums, dim } = this;
      const alpha = new Float64Array(sums.length);
      for (let n = dim; n < alpha.length; ++n) alpha[n] = Math.exp(sums[n] - sums[n - dim]);
      return alpha;
    }

    /** One entry of the row: A or M. */
    entry(query, key) {
      const out = this.single ??= new Float64Array(1);
      this.row(query, key, key + 1, out);
      return out[0];
    }

    attention(query, key) {
      const entry = this.entry(query, key);
      if (this.softmax) return entry;
      const row = new Float64Array(query + 1);
      this.row(query, 0, query + 1, row);
      const size = row.reduce((sum, one) => sum + Math.abs(one), 0);
      return size === 0 ? 0 : Math.abs(entry) / size;
    }

    value(quantity, query, key) {
      for (const position of [query, key]) {
        if (!Number.isInteger(position) || position < 0 || position >= this.length) {
          throw new RangeError(`position ${position}: positions are 0 to ${this.length - 1}`);
        }
      }
      const of = { forget: 'decay', log_forget: 'decay', attention: 'mixing', mixing: 'mixing' }[quantity];
      if (!of) throw new RangeError(`${quantity}: a page has forget, log_forget, attention and mixing`);
      const reason = of === 'decay' ? this.no_decay : this.no_mixing;
      if (reason !== undefined && this.length > 0) throw new RangeError(`${this.model.name}, ${this.name}: ${reason}`);
      if (!this.sees(query, key)) return NaN;
      if (quantity === 'forget') return this.forget(query, key);
      if (quantity === 'log_forget') return this.logForget(query, key);
      return quantity === 'attention' ? this.attention(query, key) : this.entry(query, key);
    }
  }

  const models = page.models.map((spec, number) => new Model(spec, number));
  const heads = models.flatMap((model) => model.heads);

  /* ---------- What is looked at ---------- */

  const state = {
    head: heads[page.first],
    axes: 'key',
    axesChosen: false,  // else heads that forget soon are shown by distance
    rows: [0, 0],     // queries that are shown; of both axes by key these and the keys
    columns: [0, 0],
    pin: page.pin,    // {query, key} or null
    hover: null,      // {query, key or null}
    tint: 'loss:0',
    logarithmic: { decay: false, mixing: true },
    shown: 'decay',   // of the two maps where there is room for one
  };

  /** By key a head that forgets soon is one dark triangle. */
  const bestAxes = (head) => head.forgets && head.decay_time !== null && head.decay_time < 0.02 * head.length ? 'distance' : 'key';
  const wholeText = () => [0, state.head.length];
  const isWhole = () => state.rows[0] <= 0 && state.rows[1] >= state.head.length
    && (state.axes === 'distance' || (state.columns[0] <= 0 && state.columns[1] >= state.head.length));

  /* ---------- Pictures ---------- */

  const jobs = [];
  const pump = new MessageChannel();
  let pumping = false;
  pump.port1.onmessage = () => {
    const until = performance.now() + 12;
    while (jobs.length > 0 && performance.now() < until) {
      const job = jobs[0];
      if (job.stopped || job.steps.next().done) {
        jobs.shift();
        if (!job.stopped) job.done();
      }
      job.dirty = true;
    }
    for (const view of maps) view.refresh();
    pumping = jobs.length > 0;
    if (pumping) pump.port2.postMessage(0);
  };
  /** Computes in slices between which the page answers. @param first before what waits already */
  function start(steps, done, first = true) {
    const job = { steps, done, stopped: false };
    if (first) jobs.unshift(job); else jobs.push(job);
    if (!pumping) {
      pumping = true;
      pump.port2.postMessage(0);
    }
    return job;
  }

  const edgesOf = ([begin, end], bins) => {
    const edges = new Int32Array(bins + 1);
    for (let n = 0; n <= bins; ++n) edges[n] = begin + Math.floor(n * (end - begin) / bins);
    return edges;
  };
  /** Where a distance, counted from 1, stands on the upward axis, from 0 to 1; and back. */
  const heightOf = (distance, length) => Math.log(distance) / Math.log(length + 1);
  const distanceAt = (height, length) => Math.floor(Math.exp(height * Math.log(length + 1)) + 1e-9);

  /** Entries of a rectangle pooled onto pixels: NaN where there is none; a line of pixels is known or not yet. */
  class Picture {
    constructor(head, what, axes, rows, columns, width, height) {
      Object.assign(this, { head, what, axes, rows, columns });
      this.width = axes === 'distance' ? Math.min(width, rows[1] - rows[0]) : Math.min(width, columns[1] - columns[0]);
      this.height = axes === 'distance' ? height : Math.min(height, rows[1] - rows[0]);
      this.values = new Float32Array(this.width * this.height).fill(NaN);
      this.known = new Uint8Array(axes === 'distance' ? this.width : this.height);
      this.complete = false;
      this.changed = true;
    }

    * steps() {
      yield* (this.what === 'decay' ? this.forgetSteps() : this.entrySteps());
      this.complete = true;
      this.changed = true;
    }

    * forgetSteps() {
      const { head, width, height, values } = this;
      if (this.axes === 'distance') {
        const edges = edgesOf(this.rows, width);
        for (let x = 0; x < width; ++x) {
          for (let y = 0; y < height; ++y) {
            const back = distanceAt((height - 1 - y) / height, head.length) - 1;
            let most = NaN;
            for (let query = Math.max(edges[x], back); query < edges[x + 1]; ++query) {
              if (head.sees(query, query - back)) {
                const forget = head.forget(query, query - back);
                if (!(most >= forget)) most = forget;
              }
            }
            values[y * width + x] = most;
          }
          this.known[x] = 1;
          this.changed = true;
          yield;
        }
        return;
      }
      const down = edgesOf(this.rows, height);
      const across = edgesOf(this.columns, width);
      for (let y = 0; y < height; ++y) {
        for (let x = 0; x < width; ++x) {
          values[y * width + x] = head.largestForget(down[y], down[y + 1], across[x], across[x + 1]);
        }
        this.known[y] = 1;
        this.changed = true;
        yield;
      }
    }

    /** One query of each bin first, so that a picture is there at once; then the others. */
    * entrySteps() {
      const bins = this.known.length;
      const edges = edgesOf(this.rows, bins);
      const row = new Float64Array(this.head.length);
      const put = this.axes === 'distance' ? this.distancePut() : this.keyPut();
      for (let bin = 0; bin < bins; ++bin) {
        put(edges[bin], bin, row);
        this.known[bin] = 1;
        this.changed = true;
        yield;
      }
      for (let bin = 0; bin < bins; ++bin) {
        for (let query = edges[bin] + 1; query < edges[bin + 1]; ++query) {
          put(query, bin, row);
          this.changed = true;
          yield;
        }
      }
    }

    take(at, entry) {
      const { values } = this;
      if (!(Math.abs(values[at]) > Math.abs(entry))) values[at] = entry;
    }

    /** The size that nearly all of the pixels that are known stay within; null where none is. */
    sizeOfMost() {
      const stride = Math.ceil(this.values.length / 5000);
      const sizes = [];
      for (let n = 0; n < this.values.length; n += stride) {
        if (!Number.isNaN(this.values[n])) sizes.push(Math.abs(this.values[n]));
      }
      sizes.sort((a, b) => a - b);
      return sizes[Math.floor(0.985 * sizes.length)] || null;
    }

    keyPut() {
      const { head, width } = this;
      const [begin, end] = this.columns;
      const pixel = new Int32Array(end - begin);
      const edges = edgesOf(this.columns, width);
      for (let x = 0; x < width; ++x) pixel.fill(x, edges[x] - begin, edges[x + 1] - begin);
      return (query, bin, row) => {
        const from = Math.max(begin, head.firstKey(query));
        const to = Math.min(end, query + 1);
        if (to <= from) return;
        head.row(query, from, to, row);
        for (let key = from; key < to; ++key) this.take(bin * width + pixel[key - begin], row[key - from]);
      };
    }

    distancePut() {
      const { head, width, height } = this;
      const from = new Int32Array(height);
      const to = new Int32Array(height);
      for (let y = 0; y < height; ++y) {
        from[y] = distanceAt((height - 1 - y) / height, head.length);
        to[y] = Math.max(from[y] + 1, distanceAt((height - y) / height, head.length));
      }
      return (query, bin, row) => {
        const first = head.firstKey(query);
        head.row(query, first, query + 1, row);
        for (let y = 0; y < height; ++y) {
          const last = Math.min(to[y], query - first + 2);
          for (let distance = from[y]; distance < last; ++distance) {
            this.take(y * width + bin, row[query - distance + 1 - first]);
          }
        }
      };
    }
  }

  const tableOf = (stops) => {
    const table = new Uint8Array(256 * 3);
    for (let n = 0; n < 256; ++n) {
      const place = n / 255 * (stops.length - 1);
      const below = Math.min(Math.floor(place), stops.length - 2);
      for (let part = 0; part < 3; ++part) {
        const [low, high] = [stops[below][part], stops[below + 1][part]];
        table[n * 3 + part] = Math.round(low + (place - below) * (high - low));
      }
    }
    return table;
  };
  const tables = {
    plain: tableOf(page.colours.plain),
    signed: tableOf(page.colours.signed),
    // The same hues about a dark middle, which does not glare.
    signedDark: tableOf([[150, 205, 255], [67, 147, 215], [38, 88, 150], [27, 34, 46], [150, 50, 50], [224, 100, 80], [255, 175, 150]]),
  };

  /** How values become places on a colour map, from 0 to 1. */
  function scaleOf(what, head, logarithmic, picture) {
    if (what === 'mixing' && head.signed) {
      const limit = picture?.sizeOfMost() ?? 1;  // the few largest would leave the rest pale
      return { table: look.dark ? tables.signedDark : tables.signed, place: (x) => 0.5 + x / (2 * limit), low: -limit, high: limit, logarithmic: null };
    }
    if (!logarithmic) return { table: tables.plain, place: (x) => x, low: 0, high: 1, logarithmic };
    const decades = Math.max(4, Math.ceil(Math.log10(head.length)));
    return { table: tables.plain, place: (x) => 1 + Math.log10(x) / decades, low: 10 ** -decades, high: 1, logarithmic };
  }

  /** Paints the pixels of a picture; what is not known stays clear. */
  function painted(picture, scale, canvas) {
    const { width, height, values, known } = picture;
    if (canvas.width !== width) canvas.width = width;
    if (canvas.height !== height) canvas.height = height;
    const context = canvas.getContext('2d');
    const image = context.createImageData(width, height);
    const across = picture.axes === 'distance';
    for (let y = 0, n = 0; y < height; ++y) {
      for (let x = 0; x < width; ++x, ++n) {
        const value = values[n];
        if (!known[across ? x : y] || Number.isNaN(value)) continue;
        const at = 3 * Math.round(255 * clamp(scale.place(value), 0, 1));
        image.data[4 * n] = scale.table[at];
        image.data[4 * n + 1] = scale.table[at + 1];
        image.data[4 * n + 2] = scale.table[at + 2];
        image.data[4 * n + 3] = 255;
      }
    }
    context.putImageData(image, 0, 0);
    return canvas;
  }

  /* ---------- Words ---------- */

  const number = (x) => {
    if (Number.isNaN(x)) return '–';
    if (x === 0) return '0';
    const size = Math.abs(x);
    if (size >= 1e-4 && size < 1e5) return String(Number(x.toPrecision(5))).replace('-', '−');
    const [digits, power] = x.toExponential(3).split('e');
    return `${digits} × 10${[...String(Number(power))].map((one) => one === '-' ? '⁻' : '⁰¹²³⁴⁵⁶⁷⁸⁹'[one]).join('')}`
      .replace(/^-/, '−');
  };
  const count = (n) => n.toLocaleString('en-US');
  const times = (t) => t === null ? 'never forgets' : `${t < 10 ? t.toPrecision(2) : count(Math.round(t))} tokens`;
  /** A token for one line: its blanks and what would turn or hide writing are seen. */
  const shown = (token) => token.replace(/\n/g, '↵').replace(/\t/g, '⇥').replace(/^ +| +$/g, (blanks) => '␣'.repeat(blanks.length))
    .replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
      (one) => `⟨${one.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}⟩`);
  const tokenRead = (position) => {
    const tokens = state.head.model.tokens;
    if (tokens.reads) return tokens.reads[position];
    return position === 0 ? tokens.first : tokenPredicted(position - 1);
  };
  const tokenPredicted = (position) => {
    const tokens = state.head.model.tokens;
    return (tokens.strings ?? tokens.pieces)[position];
  };
  /** An element with a class, and children or text: never markup. */
  function make(tag, name, ...children) {
    const element = document.createElement(tag);
    if (name) element.className = name;
    element.append(...children);
    return element;
  }
  const titled = (element, title) => {
    element.title = title;
    return element;
  };

  /* ---------- Maps ---------- */

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  let look = {};
  const readLook = () => {
    for (const name of ['ground', 'panel', 'line', 'letters', 'quiet', 'absent', 'query', 'key', 'key-halo', 'accent', 'tint', 'cool', 'green']) {
      look[name] = css(`--${name}`);
    }
    look.dark = document.documentElement.dataset.theme === 'dark';
  };

  /** A canvas of the element's size in the screen's dots. @returns its context, in CSS pixels, and the size */
  function sized(canvas) {
    const box = canvas.getBoundingClientRect();
    const ratio = window.devicePixelRatio || 1;
    const width = Math.max(1, Math.round(box.width * ratio));
    const height = Math.max(1, Math.round(box.height * ratio));
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    const context = canvas.getContext('2d');
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    return { context, width: box.width, height: box.height, ratio };
  }

  const steps = [1, 2, 5];
  /** Round positions of about `most` ticks. */
  function ticksOf([begin, end], most) {
    let step = 1;
    for (let n = 0; (end - begin) / step > most; ++n) step = steps[(n + 1) % 3] * 10 ** Math.floor((n + 1) / 3);
    const ticks = [];
    for (let at = Math.ceil(begin / step) * step; at < end; at += step) ticks.push(at);
    return ticks;
  }
  const short = (n) => n >= 10000 ? `${n / 1000}k` : String(n);

  const margin = { left: 46, right: 4, top: 2, bottom: 22 };

  class MapView {
    constructor(figure, what) {
      this.figure = figure;
      this.what = what;
      this.canvas = figure.querySelector(':scope > canvas');
      this.caption = figure.querySelector('b');
      this.bar = figure.querySelector('.bar');
      this.reason = figure.querySelector('.reason');
      this.image = document.createElement('canvas');
      this.under = document.createElement('canvas');
      this.picture = null;
      this.whole = null;  // the picture of the whole text, under the part that is being computed
      this.job = null;
      this.key = '';
      this.loaded = false;
      gestures(this);
    }

    get head() { return state.head; }
    get available() { return this.why === undefined; }
    /** The reason why there is no picture, a sentence without its full stop. */
    get why() {
      const { head } = this;
      if (this.what === 'mixing') return head.no_mixing;
      return head.hasDecay && !head.forgets ? 'this head has no forget gate: nothing decays, and F is 1' : head.no_decay;
    }
    get visible() { return this.canvas.offsetParent !== null; }

    /** The square, or by distance the rectangle, that entries are drawn in. */
    layout() {
      const box = this.canvas.getBoundingClientRect();
      let width = Math.max(20, box.width - margin.left - margin.right);
      let height = Math.max(20, box.height - margin.top - margin.bottom);
      if (state.axes === 'key') width = height = Math.min(width, height);
      return { x: margin.left, y: margin.top, width, height };
    }

    /** Asks for what is to be seen now. */
    update() {
      const { head } = this;
      const reason = this.why;
      this.reason.hidden = reason === undefined;
      this.reason.textContent = reason === undefined ? '' : `${reason[0].toUpperCase()}${reason.slice(1)}.`;
      this.figure.classList.toggle('zoomed', !isWhole());
      this.figure.classList.toggle('shown', state.shown === this.what);
      this.canvas.tabIndex = reason === undefined ? 0 : -1;
      this.figure.classList.toggle('absent', reason !== undefined);
      this.describe();
      if (!this.visible) return;
      const ready = this.what === 'decay' ? head.decayReady : head.ready;
      const place = this.layout();
      const ratio = window.devicePixelRatio || 1;
      const size = [Math.min(900, Math.round(place.width * ratio)), Math.min(900, Math.round(place.height * ratio))];
      const rows = [Math.max(0, Math.floor(state.rows[0])), Math.min(head.length, Math.ceil(state.rows[1]))];
      const columns = state.axes === 'distance' ? wholeText()
        : [Math.max(0, Math.floor(state.columns[0])), Math.min(head.length, Math.ceil(state.columns[1]))];
      const key = [heads.indexOf(head), state.axes, rows, columns, size, ready].join();  // the theme only paints anew
      if (key === this.key) return this.draw();
      this.key = key;
      if (this.job) this.job.stopped = true;
      const last = this.picture;
      this.picture = null;
      if (reason !== undefined || !ready) return this.draw();
      const picture = new Picture(head, this.what, state.axes, rows, columns, ...size);
      if (last && last.complete && last.head === head && last.axes === state.axes && last.rows[0] === 0
        && last.rows[1] === head.length && last.columns[0] === 0 && last.columns[1] === head.length) {
        this.whole = last;
      }
      if (this.whole && (this.whole.head !== head || this.whole.axes !== state.axes)) this.whole = null;
      this.picture = picture;
      this.job = start(picture.steps(), () => { if (this.what === 'mixing') strip.picture(head, picture); });
      this.draw();
    }

    /** Draws what has been computed since. */
    refresh() {
      if (!this.picture || !this.picture.changed) return;
      const now = performance.now();
      if (!this.picture.complete && now - (this.painted ?? 0) < 70) return;
      this.painted = now;
      this.draw();
    }

    scale() {
      return scaleOf(this.what, this.head, state.logarithmic[this.what], this.whole ?? this.picture);
    }

    describe() {
      const { head, what } = this;
      const letter = what === 'decay' ? 'F' : head.softmax ? 'A' : 'M';
      const words = what === 'decay' ? 'what is not forgotten' : head.softmax ? 'attention' : 'mixing, y = M v';
      this.caption.textContent = `${letter} · ${words}`;
      this.canvas.setAttribute('aria-label', `${letter} of ${head.name}, ${words}: arrows move the pin`);
      if (what === 'mixing') byId('show-mixing').textContent = letter;
    }

    drawBar(scale) {
      const key = [scale.low, scale.high, scale.logarithmic, look.dark].join();
      if (this.barKey === key) return;
      this.barKey = key;
      const canvas = make('canvas');
      canvas.width = 256;
      canvas.height = 1;
      const context = canvas.getContext('2d');
      const image = context.createImageData(256, 1);
      for (let n = 0; n < 256; ++n) {
        image.data.set(scale.table.subarray(3 * n, 3 * n + 3), 4 * n);
        image.data[4 * n + 3] = 255;
      }
      context.putImageData(image, 0, 0);
      const rounded = (x) => number(Number(x.toPrecision(2)));
      this.bar.replaceChildren(rounded(scale.low), canvas, rounded(scale.high));
      if (scale.logarithmic === null) return;
      const button = titled(make('button', '', scale.logarithmic ? 'log' : 'linear'), 'Logarithmic or linear colours (l)');
      button.type = 'button';
      button.onclick = () => toggleLogarithmic(this.what);
      this.bar.append(button);
    }

    draw() {
      if (!this.visible) return;
      const { context, width, height } = sized(this.canvas);
      context.clearRect(0, 0, width, height);
      if (!this.available) return void (this.bar.replaceChildren(), this.barKey = '');
      const place = this.layout();
      const scale = this.scale();
      this.drawBar(scale);
      context.fillStyle = look.absent;
      context.fillRect(place.x, place.y, place.width, place.height);
      context.save();
      context.beginPath();
      context.rect(place.x, place.y, place.width, place.height);
      context.clip();
      if (this.whole && this.picture && !this.picture.complete && this.picture !== this.whole) {
        this.paint(this.whole, scale, this.under);
        this.place(context, place, this.whole, this.under);
      }
      if (this.picture) {
        if (this.picture.known[0] && performance.getEntriesByName('first picture').length === 0) performance.mark('first picture');
        this.paint(this.picture, scale, this.image);
        this.place(context, place, this.picture, this.image);
      }
      this.drawMarks(context, place);
      context.restore();
      this.drawAxes(context, place);
      if (this.picture && !this.picture.complete && this.what === 'mixing') {
        context.fillStyle = look.quiet;
        context.font = '12px system-ui, sans-serif';
        context.textAlign = 'right';
        context.textBaseline = 'top';
        context.fillText('computing …', place.x + place.width - 8, place.y + 8);
      }
    }

    /** Paints a picture where its pixels or its colours have changed since. */
    paint(picture, scale, canvas) {
      const key = [scale.low, scale.high, scale.logarithmic, look.dark].join();
      if (canvas.picture === picture && canvas.key === key && !picture.changed) return;
      painted(picture, scale, canvas);
      Object.assign(canvas, { picture, key });
      picture.changed = false;
    }

    place(context, place, picture, image) {
      const [r0, r1] = state.rows;
      context.imageSmoothingEnabled = false;
      if (picture.axes === 'distance') {
        const dot = place.width / (r1 - r0);
        context.drawImage(image, place.x + (picture.rows[0] - r0) * dot, place.y, (picture.rows[1] - picture.rows[0]) * dot, place.height);
        return;
      }
      const [c0, c1] = state.columns;
      const across = place.width / (c1 - c0);
      const down = place.height / (r1 - r0);
      context.drawImage(image, place.x + (picture.columns[0] - c0) * across, place.y + (picture.rows[0] - r0) * down,
        (picture.columns[1] - picture.columns[0]) * across, (picture.rows[1] - picture.rows[0]) * down);
    }

    /** The middle of an entry on the canvas. */
    pointOf(place, query, key) {
      const [r0, r1] = state.rows;
      if (state.axes === 'distance') {
        const length = this.head.length;
        const distance = query - key + 1;
        const height = (heightOf(distance, length) + heightOf(distance + 1, length)) / 2;
        return { x: place.x + (query + 0.5 - r0) / (r1 - r0) * place.width, y: place.y + (1 - height) * place.height };
      }
      const [c0, c1] = state.columns;
      return { x: place.x + (key + 0.5 - c0) / (c1 - c0) * place.width, y: place.y + (query + 0.5 - r0) / (r1 - r0) * place.height };
    }

    /** The entry under a point; null outside, a key of null where the point is above the diagonal. */
    entryAt(x, y) {
      const place = this.layout();
      const across = (x - place.x) / place.width;
      const down = (y - place.y) / place.height;
      if (across < 0 || across >= 1 || down < 0 || down >= 1) return null;
      const [r0, r1] = state.rows;
      const length = this.head.length;
      if (state.axes === 'distance') {
        const query = clamp(Math.floor(r0 + across * (r1 - r0)), 0, length - 1);
        const key = query - distanceAt(1 - down, length) + 1;
        return { query, key: key < 0 ? null : key };
      }
      const [c0, c1] = state.columns;
      const query = clamp(Math.floor(r0 + down * (r1 - r0)), 0, length - 1);
      const key = clamp(Math.floor(c0 + across * (c1 - c0)), 0, length - 1);
      return { query, key: key > query ? null : key };
    }

    lines(context, place, query, key, { pinned }) {
      const at = this.pointOf(place, query, key ?? query);
      context.lineWidth = pinned ? 1.5 : 1;
      const stroke = (colour, x0, y0, x1, y1) => {
        context.strokeStyle = colour;
        context.beginPath();
        context.moveTo(x0, y0);
        context.lineTo(x1, y1);
        context.stroke();
      };
      context.setLineDash(pinned ? [] : [4, 3]);
      const queryColour = pinned ? look.query : look.dark ? '#ffffffb0' : '#101418a0';
      const halo = look.dark ? '#000000a0' : '#ffffffc0';
      const whole = place.y + place.height;
      if (state.axes === 'distance') {
        stroke(halo, at.x + 1, place.y, at.x + 1, whole);
        stroke(queryColour, at.x, place.y, at.x, whole);
        if (key !== null) stroke(pinned ? look.key : queryColour, at.x - 9, at.y, at.x + 9, at.y);
      } else {
        stroke(halo, place.x, at.y + 1, place.x + place.width, at.y + 1);
        stroke(queryColour, place.x, at.y, place.x + place.width, at.y);
        if (key !== null) {
          stroke(look['key-halo'], at.x + 1, place.y, at.x + 1, whole);
          stroke(pinned ? look.key : queryColour, at.x, place.y, at.x, whole);
        }
      }
      context.setLineDash([]);
      if (!pinned || key === null) return;
      for (const [colour, size] of [[look['key-halo'], 3.5], [look.query, 1.8]]) {
        context.strokeStyle = colour;
        context.lineWidth = size;
        context.beginPath();
        context.arc(at.x, at.y, 5.5, 0, 7);
        context.stroke();
      }
    }

    drawMarks(context, place) {
      if (state.pin) this.lines(context, place, state.pin.query, state.pin.key, { pinned: true });
      if (state.hover) this.lines(context, place, state.hover.query, state.hover.key, { pinned: false });
    }

    drawAxes(context, place) {
      context.fillStyle = look.quiet;
      context.strokeStyle = look.line;
      context.lineWidth = 1;
      const focused = this.canvas.matches(':focus-visible');
      if (focused) Object.assign(context, { strokeStyle: look.accent, lineWidth: 3 });
      context.strokeRect(place.x - 0.5, place.y - 0.5, place.width + 1, place.height + 1);
      context.font = '11px system-ui, sans-serif';
      const byDistance = state.axes === 'distance';
      const across = byDistance ? state.rows : state.columns;
      context.textBaseline = 'top';
      context.textAlign = 'center';
      for (const at of ticksOf(across, place.width / 60)) {
        const x = place.x + (at + 0.5 - across[0]) / (across[1] - across[0]) * place.width;
        if (x < place.x || x > place.x + place.width - 44) continue;
        context.fillText(short(at), x, place.y + place.height + 5);
      }
      context.textAlign = 'right';
      context.fillText(byDistance ? 'query' : 'key', place.x + place.width, place.y + place.height + 5);
      context.textBaseline = 'middle';
      if (byDistance) {
        for (const back of [0, 1, 3, 10, 30, 100, 300, 1000, 3000, 10000, 30000]) {
          const [low, high] = [back + 1, back + 2].map((distance) => heightOf(distance, this.head.length));
          const y = place.y + (1 - (low + high) / 2) * place.height;
          if (y > place.y + 16) context.fillText(short(back), place.x - 6, Math.min(y, place.y + place.height - 6));
        }
        context.fillText('back', place.x - 6, place.y + 6);
        return;
      }
      const [r0, r1] = state.rows;
      const dot = place.height / (r1 - r0);
      if (dot >= 13) {  // tokens instead of numbers
        for (let query = Math.max(0, Math.ceil(r0)); query < Math.min(r1, this.head.length); ++query) {
          const y = place.y + (query + 0.5 - r0) * dot;
          if (y < place.y || y > place.y + place.height) continue;
          const word = shown(tokenRead(query));
          context.fillText([...word].length > 7 ? `${[...word].slice(0, 6).join('')}…` : word, place.x - 5, y, margin.left - 6);
        }
        return;
      }
      for (const at of ticksOf(state.rows, place.height / 40)) {
        const y = place.y + (at + 0.5 - r0) * dot;
        if (y < place.y + 16) continue;
        context.fillText(short(at), place.x - 6, y);
      }
      context.fillText('query', place.x - 6, place.y + 6);
    }
  }

  /* ---------- Zoom ---------- */

  function show(rows, columns) {
    const length = state.head.length;
    const kept = ([begin, end]) => {
      const size = clamp(end - begin, Math.min(4, length), length);
      const from = clamp((begin + end - size) / 2, 0, length - size);
      return [from, from + size];
    };
    state.rows = kept(rows);
    state.columns = state.axes === 'distance' ? state.columns : kept(columns);
    changedView();
  }
  const fit = () => show(wholeText(), wholeText());
  const zoomed = ([begin, end], at, factor) => [at - (at - begin) * factor, at + (end - at) * factor];
  /** @param factor below 1: nearer; at the entry that stands at these shares of the rectangle */
  function zoom(factor, across, down) {
    const [r0, r1] = state.rows;
    const [c0, c1] = state.columns;
    if (state.axes === 'distance') return show(zoomed(state.rows, r0 + across * (r1 - r0), factor), state.columns);
    show(zoomed(state.rows, r0 + down * (r1 - r0), factor), zoomed(state.columns, c0 + across * (c1 - c0), factor));
  }
  function pan(across, down) {
    const [r0, r1] = state.rows;
    const [c0, c1] = state.columns;
    const byDistance = state.axes === 'distance';
    const rows = (r1 - r0) * (byDistance ? across : down);
    const columns = (c1 - c0) * across;
    show([r0 - rows, r1 - rows], [c0 - columns, c1 - columns]);
  }

  /** Mouse, pen and fingers on a map: the wheel and two fingers zoom, a drag moves, a click pins, a double click fits. */
  function gestures(view) {
    const { canvas } = view;
    const pointers = new Map();
    let moved = false;
    const local = (event) => {
      const box = canvas.getBoundingClientRect();
      return { x: event.clientX - box.left, y: event.clientY - box.top };
    };
    const shares = (point) => {
      const place = view.layout();
      return [clamp((point.x - place.x) / place.width, 0, 1), clamp((point.y - place.y) / place.height, 0, 1)];
    };
    canvas.addEventListener('wheel', (event) => {
      if (!view.entryAt(local(event).x, local(event).y)) return;
      event.preventDefault();
      const lines = event.deltaMode === 1 ? 33 : event.deltaMode === 2 ? 400 : 1;
      zoom(Math.exp(clamp(event.deltaY * lines, -240, 240) * (event.ctrlKey ? 0.006 : 0.0022)), ...shares(local(event)));
      state.hover = view.entryAt(local(event).x, local(event).y);
      changedHover();
    }, { passive: false });
    canvas.addEventListener('pointerdown', (event) => {
      if (event.button !== 0) return;
      canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, local(event));
      if (pointers.size === 1) moved = false;
    });
    canvas.addEventListener('pointermove', (event) => {
      const now = local(event);
      const before = pointers.get(event.pointerId);
      if (before) {
        const place = view.layout();
        const others = [...pointers].filter(([id]) => id !== event.pointerId);
        if (others.length === 1) {
          const other = others[0][1];
          const spread = (point) => Math.max(12, Math.hypot(point.x - other.x, point.y - other.y));
          moved = true;
          pointers.set(event.pointerId, now);
          zoom(spread(before) / spread(now), ...shares({ x: (now.x + other.x) / 2, y: (now.y + other.y) / 2 }));
        } else if (moved || Math.hypot(now.x - before.x, now.y - before.y) > 4) {
          moved = true;
          pointers.set(event.pointerId, now);
          if (!isWhole()) pan((now.x - before.x) / place.width, (now.y - before.y) / place.height);
        }
      }
      state.hover = view.entryAt(now.x, now.y);
      changedHover();
    });
    const up = (event) => {
      if (!pointers.delete(event.pointerId) || event.type !== 'pointerup' || moved || pointers.size > 0) return;
      const entry = view.entryAt(local(event).x, local(event).y);
      if (entry) pin(entry.query, entry.key ?? Math.min(state.pin?.key ?? entry.query, entry.query));
    };
    canvas.addEventListener('pointerup', up);
    canvas.addEventListener('pointercancel', up);
    canvas.addEventListener('pointerleave', () => {
      state.hover = null;
      changedHover();
    });
    canvas.addEventListener('dblclick', fit);
    for (const event of ['focus', 'blur']) canvas.addEventListener(event, changedHover);
  }

  /* ---------- Heads ---------- */

  const strip = {
    buttons: [],
    build() {
      const nav = byId('heads');
      models.forEach((model) => {
        if (models.length > 1 && model.heads.length > 0) nav.append(titled(make('span', 'of', model.name), model.name));
        model.heads.forEach((head) => {
          const canvas = make('canvas');
          canvas.setAttribute('aria-hidden', 'true');
          const memory = head.forgets ? times(head.decay_time) : head.hasDecay ? 'no gate' : head.kind;
          const button = titled(make('button', 'head', canvas, make('b', '', head.name), make('small', '', memory)),
            `${model.name}, layer ${head.layer}, head ${head.head}: ${head.kind}${head.forgets ? `, decay time ${times(head.decay_time)}` : ''}`);
          button.type = 'button';
          button.setAttribute('role', 'option');
          button.onclick = () => choose(head);
          nav.append(button);
          this.buttons.push(button);
          head.thumbnail = canvas;
        });
      });
    },
    mark() {
      this.buttons.forEach((button, n) => {
        const chosen = heads[n] === state.head;
        button.setAttribute('aria-selected', String(chosen));
        button.tabIndex = chosen ? 0 : -1;
        if (chosen) {
          const nav = byId('heads');
          const left = button.offsetLeft - nav.offsetLeft;
          if (left < nav.scrollLeft) nav.scrollLeft = left - 12;
          if (left + button.offsetWidth > nav.scrollLeft + nav.clientWidth) nav.scrollLeft = left + button.offsetWidth - nav.clientWidth + 12;
        }
      });
    },
    /** The small picture of a head: F where it forgets. */
    small(head) {
      const what = head.forgets ? 'decay' : 'mixing';
      if (what === 'mixing' && !head.hasMixing) return;
      const picture = new Picture(head, what, bestAxes(head), [0, head.length], [0, head.length], 76, 76);
      start(picture.steps(), () => this.picture(head, picture, true), what === 'decay');
    },
    picture(head, picture, own = false) {
      if (!own) return;
      const canvas = painted(picture, scaleOf(picture.what, head, picture.what === 'mixing', picture), document.createElement('canvas'));
      const context = head.thumbnail.getContext('2d');
      Object.assign(head.thumbnail, { width: 76, height: 76 });
      context.imageSmoothingEnabled = false;
      context.drawImage(canvas, 0, 0, 76, 76);
    },
  };

  /* ---------- Losses ---------- */

  const smoothed = (losses, width) => {
    const sums = new Float64Array(losses.length + 1);
    for (let n = 0; n < losses.length; ++n) sums[n + 1] = sums[n] + losses[n];
    return (position, half = width >> 1) => {
      const from = Math.max(0, position - half);
      const to = Math.min(losses.length, position + half + 1);
      return (sums[to] - sums[from]) / (to - from);
    };
  };
  const mean = (losses) => losses.reduce((sum, one) => sum + one, 0) / losses.length;
  const colourOf = (model) => model.colour[look.dark ? 1 : 0];

  const curve = {
    canvas: byId('curve').querySelector('canvas'),
    get models() { return models.filter((model) => model.losses && model.tokens === state.head.model.tokens); },
    get pair() { return this.models.length > 1 ? this.models.slice(0, 2) : null; },
    place: null,
    draw() {
      if (this.canvas.offsetParent === null) return;
      const { context, width, height } = sized(this.canvas);
      context.clearRect(0, 0, width, height);
      const shownModels = this.models;
      const [begin, end] = state.rows;
      const from = Math.max(0, Math.floor(begin));
      const to = Math.min(state.head.length, Math.ceil(end));
      const span = Math.max(1, 2 * Math.floor((to - from) / 120) + 1);
      this.legend(shownModels, span);
      if (shownModels.length === 0) return;
      const box = { x: margin.left, y: 6, width: width - margin.left - 8, height: height - 26 };
      this.place = box;
      const { pair } = this;
      const upper = { ...box, height: pair ? Math.floor(box.height * 0.58) : box.height };
      const lower = pair ? { ...box, y: box.y + upper.height + 8, height: box.height - upper.height - 8 } : null;
      const x = (position) => box.x + (position + 0.5 - begin) / (end - begin) * box.width;
      const stride = Math.max(1, Math.floor((to - from) / box.width / 2));
      const points = (value) => {
        const list = [];
        for (let p = from; p < to; p += stride) list.push([x(p), value(p)]);
        return list;
      };
      const lines = shownModels.map((model) => ({ model, points: points(smoothed(model.losses, span)) }));
      const values = lines.flatMap((line) => line.points.map((point) => point[1])).filter(Number.isFinite);
      this.panel(context, upper, [Math.min(...values), Math.max(...values)], 'nats', (y) => {
        for (const line of [...lines].reverse()) this.line(context, line.points, y, colourOf(line.model));
      });
      if (pair) {
        const difference = pair[0].losses.map((loss, p) => loss - pair[1].losses[p]);
        const list = points(smoothed(difference, span));
        const heights = list.map((point) => point[1]);
        this.panel(context, lower, [Math.min(0, ...heights), Math.max(0, 1e-6, ...heights)], 'Δ', (y) => this.area(context, list, y, pair));
      }
      context.fillStyle = look.quiet;
      context.font = '11px system-ui, sans-serif';
      context.textAlign = 'center';
      context.textBaseline = 'top';
      for (const at of ticksOf(state.rows, box.width / 70)) {
        if (x(at) < box.x + box.width - 50) context.fillText(short(at), x(at), box.y + box.height + 5);
      }
      context.textAlign = 'right';
      context.fillText('position', box.x + box.width, box.y + box.height + 5);
      const mark = (position, colour, dash) => {
        context.strokeStyle = colour;
        context.lineWidth = 1.2;
        context.setLineDash(dash);
        context.beginPath();
        context.moveTo(x(position), box.y);
        context.lineTo(x(position), box.y + box.height);
        context.stroke();
        context.setLineDash([]);
      };
      if (state.pin && state.pin.query >= begin && state.pin.query < end) mark(state.pin.query, look.query, []);
      if (state.hover && state.hover.query >= begin && state.hover.query < end) mark(state.hover.query, look.quiet, [4, 3]);
    },
    panel(context, box, [low, high], name, draw) {
      const room = Math.max((high - low) * 0.06, 1e-6);
      const limits = [low - room, high + room];
      const y = (value) => box.y + (limits[1] - value) / (limits[1] - limits[0]) * box.height;
      context.font = '11px system-ui, sans-serif';
      context.textAlign = 'right';
      context.textBaseline = 'middle';
      const span = limits[1] - limits[0];
      const sizes = [-3, -2, -1, 0, 1, 2].flatMap((power) => [1, 2, 5].map((n) => n * 10 ** power));
      let step = sizes.find((size) => size / span * box.height >= 16) ?? span;
      const ticks = [];
      for (let at = Math.ceil(limits[0] / step) * step; at <= limits[1]; at += step) ticks.push(at);
      if (name === 'Δ' && ticks.length < 3) {  // 0 and one round size
        step = sizes.findLast((size) => size <= Math.max(high, -low)) ?? high;
        ticks.splice(0, ticks.length, ...[-step, 0, step].filter((at) => at >= limits[0] && at <= limits[1]));
      }
      const decimals = clamp(Math.ceil(-Math.log10(step) - 1e-9), 0, 4);
      for (const at of ticks) {
        context.strokeStyle = look.line;
        context.lineWidth = Math.abs(at) < step / 2 ? 1.6 : 1;
        context.beginPath();
        context.moveTo(box.x, y(at));
        context.lineTo(box.x + box.width, y(at));
        context.stroke();
        context.fillStyle = look.quiet;
        if (y(at) > box.y - 2 && y(at) < box.y + box.height + 2) {
          const words = Math.abs(at) < step / 2 ? '0' : at.toFixed(decimals).replace('-', '−');
          context.fillText(name === 'Δ' && at > step / 2 ? `+${words}` : words, box.x - 6, y(at));
        }
      }
      context.save();
      context.beginPath();
      context.rect(box.x, box.y, box.width, box.height);
      context.clip();
      draw(y);
      context.restore();
    },
    line(context, points, y, colour) {
      context.strokeStyle = colour;
      context.lineWidth = 1.6;
      context.lineJoin = 'round';
      context.beginPath();
      for (const [x, value] of points) context.lineTo(x, y(value));
      context.stroke();
    },
    /** Below 0 in the colour of the first model, which is better there, above in that of the second. */
    area(context, points, y, pair) {
      for (const [side, model] of [[-1, pair[0]], [1, pair[1]]]) {
        context.fillStyle = colourOf(model);
        context.globalAlpha = 0.75;
        context.beginPath();
        context.moveTo(points[0][0], y(0));
        for (const [x, value] of points) context.lineTo(x, y(value * side > 0 ? value : 0));
        context.lineTo(points[points.length - 1][0], y(0));
        context.fill();
      }
      context.globalAlpha = 1;
    },
    legend(shownModels, span) {
      const at = state.hover?.query ?? state.pin?.query ?? null;
      const parts = shownModels.map((model) => {
        const dot = make('i');
        dot.style.background = colourOf(model);
        const here = at === null ? '' : ` ${model.losses[at].toFixed(3)},`;
        return make('span', '', dot, `${model.name}${here} mean ${model.mean.toFixed(4)}`);
      });
      if (this.pair) {
        const [first, second] = this.pair;
        const here = at === null ? '' : ` ${signed(first.losses[at] - second.losses[at], 3)},`;
        parts.push(make('span', '', `Δ ${first.name} − ${second.name}${here} mean ${signed(first.mean - second.mean, 4)}`));
      }
      if (shownModels.length === 0) parts.push(make('span', '', 'The run did not keep losses'));
      else parts.push(make('span', '', span > 1 ? `nats a token, each over ${span} tokens` : 'nats a token'));
      const left = models.filter((model) => model.losses && model.tokens !== state.head.model.tokens).length;
      if (left > 0) parts.push(make('span', '', `${left === 1 ? 'one model cuts' : `${left} models cut`} the text otherwise`));
      byId('legend').replaceChildren(...parts);
    },
    positionAt(event) {
      const box = this.canvas.getBoundingClientRect();
      const share = (event.clientX - box.left - this.place.x) / this.place.width;
      if (share < 0 || share >= 1) return null;
      const [begin, end] = state.rows;
      return clamp(Math.floor(begin + share * (end - begin)), 0, state.head.length - 1);
    },
  };
  const signed = (x, digits) => `${x < 0 ? '−' : '+'}${Math.abs(x).toFixed(digits)}`;

  /* ---------- Text ---------- */

  const words = {
    box: byId('words'),
    spans: [],
    of: null,
    blocks: [],
    /** Every token is a span, text and never markup; blocks end at the end of a line. */
    build() {
      const { tokens } = state.head.model;
      if (this.of === tokens) return;
      this.of = tokens;
      this.spans = [];
      this.blocks = [];
      this.box.replaceChildren();
      let block = null;
      let size = 0;
      tokens.pieces.forEach((piece, token) => {
        if (!block) {
          block = make('div', 'block');
          block.from = token;
          size = 0;
        }
        const span = make('span', piece === '' ? 'part' : /^\n+$/.test(piece) ? 'newline' : '', piece);
        span.token = token;
        block.append(span);
        this.spans.push(span);
        size += piece.length;
        if ((piece.includes('\n') && piece.endsWith('\n')) || size > 4000 || token === tokens.pieces.length - 1) {
          block.to = token + 1;
          this.blocks.push(block);
          this.box.append(block);
          this.watcher?.observe(block);
          block = null;
        }
      });
      if (tokens.unread > 0) this.box.append(make('span', 'unread', `The run read no further: ${count(tokens.unread)} bytes follow.`));
    },
    /** What each token is tinted by, and the words of the legend. */
    tint() {
      const { head } = state;
      const [kind, of] = state.tint.split(':');
      if (kind === 'loss') {
        const { losses } = models[of];
        return { value: (token) => losses[token], most: 8, words: '0 … 8 nats', name: 'loss' };
      }
      if (kind === 'difference') {
        const [first, second] = curve.pair;
        return { value: (token) => first.losses[token] - second.losses[token], most: 2,
          words: `blue: ${first.name} is better, orange: ${second.name}; to 2 nats`, name: 'Δ' };
      }
      if (kind === 'gate') {
        return { value: (token) => token + 1 < head.length ? 1 - Math.exp(head.logForget(token + 1, token)) : NaN, most: 1,
          words: '1 − f: how much the gate forgets at a token', name: '1 − f', green: true };
      }
      const row = kind === 'decay' ? head.forgets && ((q, k) => head.forget(q, k)) : head.ready && head.hasMixing && this.row();
      const pinned = state.pin;
      if (!row) return { value: () => NaN, most: 1, words: 'not in this page', name: '' };
      if (!pinned) return { value: () => NaN, most: 1, words: 'pin a query: click in a map or on a token', name: '' };
      const letter = kind === 'decay' ? 'F' : head.softmax ? 'A' : 'M';
      const value = (token) => head.sees(pinned.query, token + 1) ? row(pinned.query, token + 1) : NaN;
      if (kind === 'decay') return { value, most: 1, words: `F from ${count(pinned.query)} back, 0 … 1`, name: 'F', green: true };
      let most = 0;
      for (let token = 0; token < pinned.query; ++token) most = Math.max(most, Math.abs(value(token)) || 0);
      return { value, most: most || 1, words: `${letter} from ${count(pinned.query)} back, to ${number(Number(most.toPrecision(2)))}`, name: letter, root: true };
    },
    row() {
      const { head, pin: pinned } = state;
      if (!pinned) return () => NaN;
      const first = head.firstKey(pinned.query);
      const row = new Float64Array(pinned.query + 1 - first);
      head.row(pinned.query, first, pinned.query + 1, row);
      return (query, key) => row[key - first];
    },
    colour() {
      this.tinted = this.tint();
      byId('scale').textContent = this.tinted.words;
      for (const block of this.blocks) block.stale = true;
      for (const block of this.blocks) if (!this.watcher || block.seen) this.colourBlock(block);
    },
    colourBlock(block) {
      block.stale = false;
      const { value, most, green, root } = this.tinted;
      const strongest = look.dark ? 0.62 : 0.72;
      for (let token = block.from; token < block.to; ++token) {
        const x = value(token);
        let part = Number.isFinite(x) ? clamp(Math.abs(x) / most, 0, 1) : 0;
        if (root) part = Math.sqrt(part);
        const colour = x < 0 ? look.cool : green ? look.green : look.tint;
        this.spans[token].style.backgroundColor = part > 0.012 ? `rgba(${colour}, ${(part * strongest).toFixed(3)})` : '';
      }
    },
    spanOf(read) { return read > 0 ? this.spans[read - 1] : undefined; },
    mark() {
      for (const [name, of] of [['hover', state.hover?.query], ['key', state.hover?.key ?? state.pin?.key], ['query', state.pin?.query]]) {
        const span = of === undefined || of === null ? undefined : this.spanOf(of);
        if (this[`${name}Span`] === span) continue;
        this[`${name}Span`]?.classList.remove(name);
        span?.classList.add(name);
        this[`${name}Span`] = span;
      }
    },
    /** Brings a token into view, without moving the page. */
    reveal(read) {
      const span = this.spanOf(read);
      if (!span || this.box.scrollHeight <= this.box.clientHeight + 2) return;
      const box = this.box.getBoundingClientRect();
      const at = span.getBoundingClientRect();
      if (at.top < box.top + 8 || at.bottom > box.bottom - 8) this.box.scrollTop += at.top - box.top - box.height / 3;
    },
  };

  /* ---------- Read-out ---------- */

  function readout() {
    const { head, hover } = state;
    const at = hover ?? state.pin;
    const box = byId('readout');
    if (!at) {
      box.replaceChildren(make('span', '', make('small', '', window.matchMedia('(pointer: coarse)').matches ? 'Touch a map, the text or the curve: that pins.'
        : 'Point at a map, the text or the curve; a click pins. ? shows the keys.')));
      return '';
    }
    const { key } = at;
    const token = (name, position, words) => {
      const bdi = make('bdi', name, shown(words));
      return make('span', '', make('small', '', `${name === 'k' ? 'key' : 'query'} ${count(position)} `), bdi);
    };
    const entry = (letter, value, title) => titled(make('span', '', make('small', '', `${letter} `), make('span', 'number', number(value))), title);
    const parts = [make('span', '', make('b', '', head.name)), token('q', at.query, tokenRead(at.query))];
    let spoken = `query ${at.query}, ${shown(tokenRead(at.query))}`;
    if (key !== null) {
      parts.push(token('k', key, tokenRead(key)), make('span', '', make('small', '', `${count(at.query - key)} back`)));
      spoken += `; key ${key}, ${shown(tokenRead(key))}`;
      if (head.hasDecay && head.decayReady) {  // 1 without a gate
        const forget = head.sees(at.query, key) ? head.forget(at.query, key) : NaN;
        parts.push(entry('F', forget, `F = ${forget}`));
        spoken += `; F ${number(forget)}`;
      }
      if (head.hasMixing && head.ready) {
        const value = head.sees(at.query, key) ? head.entry(at.query, key) : NaN;
        const letter = head.softmax ? 'A' : 'M';
        parts.push(entry(letter, value, `${letter} = ${value}, to ${head.error.toExponential(1)}`));
        spoken += `; ${letter} ${number(value)}`;
      }
    }
    parts.push(make('span', '', make('small', '', 'next '), make('bdi', '', shown(tokenPredicted(at.query)))));
    const { losses } = head.model;
    if (losses) parts.push(make('span', '', make('span', 'number', losses[at.query].toFixed(3)), make('small', '', ' nats')));
    const { tinted } = words;
    if (at.query > 0 && /^(gate|difference)/.test(state.tint) && tinted) {
      parts.push(make('span', '', make('small', '', `${tinted.name} `), make('span', 'number', number(tinted.value(at.query - 1)))));
    }
    box.replaceChildren(...parts);
    return spoken;
  }

  /* ---------- Changes ---------- */

  // F is asked for last, so that it is computed first.
  const maps = [new MapView(byId('map-mixing'), 'mixing'), new MapView(byId('map-decay'), 'decay')];

  let waiting = false;
  const parts = new Set();
  /** Draws before the next frame what has changed. */
  function later(...names) {
    names.forEach((name) => parts.add(name));
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      const now = new Set(parts);
      parts.clear();
      if (now.has('maps')) for (const view of maps) view.update(); else if (now.has('marks')) for (const view of maps) view.draw();
      if (now.has('curve') || now.has('marks')) curve.draw();
      if (now.has('tint')) words.colour();
      if (now.has('marks') || now.has('maps')) {
        words.mark();
        const spoken = readout();
        if (now.has('spoken')) byId('spoken').textContent = spoken;
      }
    });
  }
  function changedHover() { later('marks'); }
  function changedView() {
    const [r0, r1] = state.rows;
    const [c0, c1] = state.columns;
    const words1 = `queries ${count(Math.floor(r0))} to ${count(Math.ceil(r1) - 1)}`;
    byId('range').textContent = state.axes === 'distance' ? words1 : `${words1}, keys ${count(Math.floor(c0))} to ${count(Math.ceil(c1) - 1)}`;
    byId('fit').disabled = isWhole();
    later('maps', 'curve');
  }
  function remember() {
    const pinned = state.pin ? `&query=${state.pin.query}&key=${state.pin.key}` : '';
    const { model, layer, head } = state.head;
    try {
      const axes = state.axesChosen ? `&axes=${state.axes}` : '';
      history.replaceState(null, '', `#model=${model.number}&head=${layer}:${head}${axes}${pinned}`);
    } catch { /* a page that may have no address still works */ }
  }
  function recall() {
    const words = new URLSearchParams(location.hash.slice(1));
    const [layer, number1] = (words.get('head') ?? '').split(':').map(Number);
    const model = models[Number(words.get('model') ?? 0)];
    state.head = model?.heads.find((one) => one.layer === layer && one.head === number1) ?? state.head;
    state.axesChosen = ['key', 'distance'].includes(words.get('axes'));
    state.axes = state.axesChosen ? words.get('axes') : bestAxes(state.head);
    const query = Number(words.get('query') ?? NaN);
    const key = Number(words.get('key') ?? NaN);
    if (Number.isInteger(query) && Number.isInteger(key) && key >= 0 && key <= query && query < state.head.length) state.pin = { query, key };
  }

  function pin(query, key) {
    const length = state.head.length;
    const at = clamp(query, 0, length - 1);
    state.pin = { query: at, key: clamp(key, 0, at) };
    follow();
    later('marks', 'tint', 'spoken');
    words.reveal(state.pin.query);
    remember();
  }
  function unpin() {
    state.pin = null;
    later('marks', 'tint');
    remember();
  }
  /** Keeps the pin in what is shown. */
  function follow() {
    const { query, key } = state.pin;
    const into = ([begin, end], at) => at < begin ? [at - 1, at - 1 + end - begin] : at + 1 > end ? [at + 2 - (end - begin), at + 2] : [begin, end];
    const rows = into(state.rows, query);
    const columns = state.axes === 'distance' ? state.columns : into(state.columns, key);
    if (rows[0] !== state.rows[0] || columns[0] !== state.columns[0]) show(rows, columns);
  }
  async function choose(head) {
    const changed = head.model.length !== state.head.model.length;
    state.head = head;
    if (state.pin && state.pin.query >= head.length) state.pin = null;
    state.hover = null;
    tintChoices();
    words.build();
    strip.mark();
    remember();
    if (changed) state.rows = state.columns = wholeText();
    if (!state.axesChosen) showAxes(bestAxes(head));
    changedView();
    later('maps', 'curve', 'tint', 'marks');
    await prepare(head);
  }
  async function prepare(head) {
    await head.loadDecay();
    head.decayReady = true;
    if (head === state.head) later('maps', 'tint', 'marks');
    await head.load();
    head.ready = true;
    if (head === state.head) later('maps', 'tint', 'marks');
  }
  function showAxes(axes) {
    if (axes === 'key' && state.axes !== 'key') state.columns = [...state.rows];
    state.axes = axes;
    for (const name of ['key', 'distance']) byId(`axes-${name}`).setAttribute('aria-pressed', String(name === axes));
  }
  function setAxes(axes) {
    state.axesChosen = true;
    showAxes(axes);
    remember();
    changedView();
    later('marks');
  }
  function toggleLogarithmic(what) {
    state.logarithmic[what] = !state.logarithmic[what];
    for (const view of maps) view.draw();
  }
  function setShown(what) {
    state.shown = what;
    byId('show-decay').setAttribute('aria-pressed', String(what === 'decay'));
    byId('show-mixing').setAttribute('aria-pressed', String(what === 'mixing'));
    later('maps');
  }
  function setTheme(theme) {
    document.documentElement.dataset.theme = theme;
    readLook();
    for (const model of models) if (model.dot) model.dot.style.background = colourOf(model);
    later('maps', 'curve', 'tint', 'marks');
  }
  function setTint(tint) {
    state.tint = tint;
    byId('tint').value = tint;
    later('tint', 'marks');
  }
  function tintChoices() {
    const { head } = state;
    const list = curve.models.map((model) => [`loss:${model.number}`, `loss of ${model.name}`]);
    if (curve.pair) list.push(['difference', `Δ: ${curve.pair[0].name} − ${curve.pair[1].name}`]);
    if (head.forgets) list.push(['gate', `gate of ${head.name}`], ['decay', 'F of the pinned query']);
    if (head.hasMixing) list.push(['mixing', `${head.softmax ? 'A' : 'M'} of the pinned query`]);
    const box = byId('tint');
    box.replaceChildren(...list.map(([value, words1]) => Object.assign(make('option', '', words1), { value })));
    if (!list.some(([value]) => value === state.tint)) state.tint = list.length > 0 ? list[0][0] : 'none';
    box.value = state.tint;
  }

  /* ---------- Keys and help ---------- */

  const keys = [
    ['← →', 'move the pinned key (by distance: the query); with Shift ten at a time'],
    ['↑ ↓', 'move the pinned query (by distance: the key)'],
    ['1 … 9', 'choose a head; [ and ] the one before and after'],
    ['+ − 0', 'zoom to the pin, back, the whole text'],
    ['x', 'axes by key, or by distance'],
    ['l', 'colours of the map in front logarithmic or linear'],
    ['f', 'the other map, where there is room for one'],
    ['t', 'the next tint of the text'],
    ['d', 'dark or light'],
    ['Escape', 'no pin'],
    ['?', 'this help'],
  ];
  const glossary = [
    ['F', 'forgetting: F(i, j) = f(j+1) · … · f(i) = exp(c_i − c_j), what the forget gates between a key j and a query i let through. 1: nothing is forgotten.'],
    ['A', 'attention: A(i, j) = exp(q_i · k_j / √d + c_i − c_j) over the sum of its row: how much query i takes from key j.'],
    ['M', 'of a linear mixer: y_i = Σ M(i, j) v_j, signed; F is its decay.'],
    ['decay time', 'T = −1 / mean(log f): after T tokens 1/e is left.'],
    ['loss', '−log p of the token that a position predicts, in nats; e to the mean is the perplexity.'],
    ['Δ', 'loss of the first model minus loss of the second: below 0 the first is better.'],
    ['pixels', 'where a pixel stands for many entries it shows the largest; the numbers under the maps are those of the one entry under the pointer.'],
  ];
  function help() {
    const dialog = byId('helping');
    const close = make('button', 'close', 'Close');
    close.onclick = () => dialog.close();
    const title = make('h2', '', 'Keys and words');
    title.id = 'help-title';
    const list = (rows, tag) => make('dl', '', ...rows.flatMap(([name, words1]) => [make('dt', '', make(tag, '', name)), make('dd', '', words1)]));
    dialog.replaceChildren(close, title, make('p', 'quiet', 'In a map the wheel or two fingers zoom, a drag moves, a click pins, a double click shows the whole text. '
      + 'In the text and the curve a click pins a query; with Shift a click on a token pins a key.'),
    list(keys, 'kbd'), make('h3', '', 'Words'), list(glossary, 'b'),
    make('h3', '', 'For scripts'), make('p', '', make('code', '', "await foxscope.ready; foxscope.value('forget', layer, head, query, key)")));
    dialog.showModal();
  }

  function press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || byId('helping').open) return;
    if (/^(SELECT|INPUT|TEXTAREA)$/.test(event.target.tagName)) return;
    const far = event.shiftKey ? 10 : 1;
    const pinned = state.pin ?? { query: Math.floor(state.head.length / 2), key: Math.floor(state.head.length / 4) };
    const onTab = event.target.closest?.('#heads');
    const inText = event.target.closest?.('#words') && !state.pin;
    const step = (n) => {
      const next = heads[clamp(heads.indexOf(state.head) + n, 0, heads.length - 1)];
      choose(next);
      if (onTab) strip.buttons[heads.indexOf(next)].focus();
    };
    const moves = state.axes === 'distance'
      ? { ArrowLeft: [-1, -1], ArrowRight: [1, 1], ArrowUp: [0, -1], ArrowDown: [0, 1] }
      : { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    const middle = () => {
      const [r0, r1] = state.rows;
      const [c0, c1] = state.columns;
      const down = state.pin ? clamp((state.pin.query + 0.5 - r0) / (r1 - r0), 0, 1) : 0.5;
      if (state.axes === 'distance') return [down, 0.5];
      return [state.pin ? clamp((state.pin.key + 0.5 - c0) / (c1 - c0), 0, 1) : 0.5, down];
    };
    if (onTab && (event.key === 'ArrowLeft' || event.key === 'ArrowRight')) step(event.key === 'ArrowRight' ? 1 : -1);
    else if (inText && event.key.startsWith('Arrow')) return;
    else if (moves[event.key]) {
      const [query, key] = moves[event.key];
      pin(pinned.query + query * far, pinned.key + key * far);
    } else if (/^[1-9]$/.test(event.key)) {
      if (heads[event.key - 1]) choose(heads[event.key - 1]);
    } else if (event.key === '[') step(-1);
    else if (event.key === ']') step(1);
    else if (event.key === '+' || event.key === '=') zoom(0.6, ...middle());
    else if (event.key === '-') zoom(1 / 0.6, ...middle());
    else if (event.key === '0') fit();
    else if (event.key === 'x') setAxes(state.axes === 'key' ? 'distance' : 'key');
    else if (event.key === 'l') toggleLogarithmic(event.target.closest?.('#map-mixing') || state.shown === 'mixing' ? 'mixing' : 'decay');
    else if (event.key === 'f') setShown(state.shown === 'decay' ? 'mixing' : 'decay');
    else if (event.key === 't') {
      const box = byId('tint');
      box.selectedIndex = (box.selectedIndex + 1) % box.options.length;
      setTint(box.value);
    } else if (event.key === 'd') setTheme(look.dark ? 'light' : 'dark');
    else if (event.key === 'Escape') unpin();
    else if (event.key === '?') help();
    else return;
    event.preventDefault();
  }

  /* ---------- Start ---------- */

  function facts() {
    const rows = [['this page', make('code', '', page.command)]];
    if (page.run_command) rows.push(['the run', make('code', '', page.run_command)]);
    if (page.text_sha256) rows.push(['text', make('code', '', `SHA-256 ${page.text_sha256}`)]);
    for (const model of models) {
      rows.push([model.name, make('span', '', `${model.description}; weights `, make('code', '', `SHA-256 ${model.weights_sha256 || 'not known'}`))]);
    }
    rows.push(['entries', page.exactness]);
    rows.push(['made by', page.program]);
    byId('facts').append(make('dl', '', ...rows.flatMap(([name, what]) => [make('dt', '', name), make('dd', '', what)])));
  }
  function modelList() {
    byId('models').append(...models.map((model) => {
      model.dot = make('i', 'dot');
      const line = make('li', '', model.dot, make('span', '', model.name));
      if (model.losses) line.append(titled(make('span', 'quiet', `${model.mean.toFixed(4)} nats a token`), `perplexity ${Math.exp(model.mean).toFixed(2)}`));
      return line;
    }), make('li', '', make('span', 'quiet', `${count(models[0].length)} tokens`)));
  }

  function listen() {
    document.addEventListener('keydown', press);
    byId('help').onclick = help;
    byId('theme').onclick = () => setTheme(look.dark ? 'light' : 'dark');
    byId('fit').onclick = fit;
    byId('axes-key').onclick = () => setAxes('key');
    byId('axes-distance').onclick = () => setAxes('distance');
    byId('show-decay').onclick = () => setShown('decay');
    byId('show-mixing').onclick = () => setShown('mixing');
    byId('tint').onchange = (event) => setTint(event.target.value);
    const dark = window.matchMedia('(prefers-color-scheme: dark)');
    dark.addEventListener('change', () => setTheme(dark.matches ? 'dark' : 'light'));
    let before = null;
    window.addEventListener('beforeprint', () => {
      before = document.documentElement.dataset.theme;
      byId('origin').open = true;
      for (const block of words.blocks) if (block.stale) words.colourBlock(block);
      setTheme('light');
      for (const view of maps) view.draw();
      curve.draw();
    });
    window.addEventListener('afterprint', () => setTheme(before ?? 'light'));
    const over = (event) => event.target.closest?.('.block span');
    words.box.addEventListener('pointermove', (event) => {
      const span = over(event);
      const read = span ? Math.min(span.token + 1, state.head.length - 1) : null;
      state.hover = span ? { query: read, key: state.pin && state.pin.key <= read ? state.pin.key : null } : null;
      if (span && state.pin && read <= state.pin.query && /^(decay|mixing)/.test(state.tint)) state.hover = { query: state.pin.query, key: read };
      changedHover();
    });
    words.box.addEventListener('click', (event) => {
      const span = over(event);
      if (!span) return;
      const read = Math.min(span.token + 1, state.head.length - 1);
      if (event.shiftKey && state.pin) pin(Math.max(state.pin.query, read), read);
      else pin(read, state.pin ? Math.min(state.pin.key, read) : read);
    });
    curve.canvas.addEventListener('pointermove', (event) => {
      const query = curve.positionAt(event);
      state.hover = query === null ? null : { query, key: state.pin && state.pin.key <= query ? state.pin.key : null };
      changedHover();
    });
    curve.canvas.addEventListener('click', (event) => {
      const query = curve.positionAt(event);
      if (query !== null) pin(query, Math.min(state.pin?.key ?? query, query));
    });
    for (const element of [words.box, curve.canvas]) {
      element.addEventListener('pointerleave', () => {
        state.hover = null;
        changedHover();
      });
    }
    let resized = 0;
    const watcher = new ResizeObserver(() => {
      cancelAnimationFrame(resized);
      resized = requestAnimationFrame(() => later('maps', 'curve', 'marks'));
    });
    for (const drawn of [byId('main'), curve.canvas, ...maps.map((view) => view.canvas)]) watcher.observe(drawn);
    words.watcher = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        entry.target.seen = entry.isIntersecting;
        if (entry.isIntersecting && entry.target.stale) words.colourBlock(entry.target);
      }
    }, { rootMargin: '200px' });
  }

  async function begin() {
    if (typeof DecompressionStream === 'undefined') throw new Error('the page needs a browser of 2023 or later (DecompressionStream)');
    readLook();
    recall();
    state.rows = state.columns = wholeText();
    setTheme(window.matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');
    strip.build();
    strip.mark();
    if (!state.head.forgets) setShown('mixing');
    listen();
    showAxes(state.axes);
    changedView();
    await state.head.loadDecay();
    state.head.decayReady = true;
    for (const view of maps) view.update();
    await Promise.all(models.map((model) => model.load()));
    for (const model of models) if (model.losses) model.mean = mean(model.losses);
    modelList();
    setTheme(document.documentElement.dataset.theme);
    tintChoices();
    words.build();
    facts();
    if (page.mark) {
      byId('failure').hidden = false;
      byId('failure').textContent = page.mark;
    }
    later('maps', 'curve', 'tint', 'marks');
    await prepare(state.head);
    for (const head of heads) await prepare(head);
    // Small pictures come one by one, and keep nobody waiting.
    heads.forEach((head) => setTimeout(() => strip.small(head)));
  }

  const failed = (error) => {
    byId('failure').hidden = false;
    byId('failure').textContent = `This page cannot show its pictures: ${error.message}`;
    throw error;
  };
  // For scripts: foxscope.value of the first model, foxscope.models[0].value and foxscope.models.NAME.value of each.
  for (const model of models) {
    if (!(model.name in models)) Object.defineProperty(models, model.name, { value: model });
  }
  window.foxscope = Object.freeze({
    models,
    value: (...entry) => models[0].value(...entry),
    ready: begin().catch(failed),
    state,
  });
})();
