#include "app/gui/maps/pane/map_pane.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include <QClipboard>
#include <QContextMenuEvent>
#include <QGuiApplication>
#include <QJsonDocument>
#include <QPainter>
#include <QThread>
#include <QVBoxLayout>

#include "app/gui/maps/colour_bar.h"
#include "app/gui/maps/map_area.h"
#include "app/gui/maps/map_gestures.h"
#include "app/gui/maps/map_plot.h"
#include "app/gui/maps/pane/pane_menu.h"
#include "app/gui/maps/view_motion.h"
#include "app/gui/views/theme.h"

namespace foxscope::gui {
namespace {

// Logical pixels.
constexpr int kFrame = 2;   ///< around the active pane
constexpr int kInside = 3;  ///< from a pane's edge to what it shows
constexpr int kCopiedMs = 4000;

}  // namespace

MapPane::MapPane(RunList& runs, const NearestHead& nearest, QWidget* parent)
    : QWidget(parent),
      m_runs(runs),
      m_heads(runs, nearest),
      m_header(new PaneHeader),
      m_meaning(new QLabel),
      m_failure(new QLabel),
      m_area(new MapArea),
      m_pictures(runs, [this] { return shading(); }) {
  auto* all = new QVBoxLayout(this);
  all->setContentsMargins(kInside, kInside, kInside, kInside);
  all->setSpacing(0);
  all->addWidget(m_header);
  all->addWidget(m_meaning);
  all->addWidget(m_failure);
  all->addWidget(m_area, 1);
  m_meaning->setTextFormat(Qt::PlainText);
  m_meaning->setContentsMargins(kInside, 0, kInside, 0);
  m_meaning->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Fixed);
  m_meaning->hide();
  m_failure->setWordWrap(true);
  m_failure->hide();
  m_copiedShown.setSingleShot(true);
  m_copiedShown.setInterval(kCopiedMs);
  m_gestures = new MapGestures(m_area->plot());
  m_row = new PinnedRow(runs, m_area->plot(), [this](const Cursor& pair) {
    const PictureContent* content = isOnText() ? shownContent() : nullptr;
    return std::pair(content, content == nullptr ? 0 : sideShowing(*content, m_area->plot(), *pair.query, *pair.key));
  });
  m_row->setParent(this);
  connectParts();
}

void MapPane::connectParts() {
  connect(m_header, &PaneHeader::stateWanted, this, &MapPane::change);
  connect(m_header, &PaneHeader::contrastWanted, this, &MapPane::setContrast);
  connect(m_header, &PaneHeader::nearestWanted, this, &MapPane::chooseNearest);
  connect(m_header, &PaneHeader::touched, this, &MapPane::activated);
  connect(&m_copiedShown, &QTimer::timeout, this, [this] {
    m_copied.clear();
    showTexts();
  });
  MapPlot* plot = &m_area->plot();
  plot->installEventFilter(this);
  connect(plot, &MapPlot::shapeChanged, this, &MapPane::refreshLater);
  connect(plot, &MapPlot::painted, &m_pictures, &PanePictures::announcePainted);
  connect(&m_pictures, &PanePictures::overtaken, plot, &MapPlot::drawNow);
  connect(&m_pictures, &PanePictures::picturesChanged, this, &MapPane::showPictures);
  connect(&m_pictures, &PanePictures::progressed, this, &MapPane::showTexts);
  connect(&m_pictures, &PanePictures::outdated, this, &MapPane::refreshLater);
  connect(&m_pictures, &PanePictures::told, this, [this](const QString& message) {
    m_message = message;
    if (message.isEmpty() || !isHeld()) return;
    // The picture would stand for one that cannot be made.
    m_pictures.drop([this](const PictureContent& content) { return !m_heads.holds(content); });
    showPictures();
  });
  connect(&m_pictures, &PanePictures::firstPictureShown, this, &MapPane::firstPictureShown);
  connect(&m_pictures, &PanePictures::exactPictureShown, this, &MapPane::exactPictureShown);
  ColourBar* bar = &m_area->bar();
  connect(bar, &ColourBar::limitsWanted, this, [this](double lower, double upper) {
    PaneState state = m_state;
    state.colours.lower = lower;
    state.colours.upper = upper;
    change(state);
  });
  connect(bar, &ColourBar::automaticWanted, this, [this] {
    PaneState state = m_state;
    state.colours.lower.reset();
    state.colours.upper.reset();
    change(state);
  });
  Selection* selection = &m_runs.selection();
  connect(m_gestures, &MapGestures::touched, this, [this] {
    chooseText();
    emit activated();
  });
  connect(m_gestures, &MapGestures::viewWanted, this, [this, selection](const View& view) {
    chooseText();
    selection->setView(view);
  });
  connect(m_gestures, &MapGestures::movementEnded, selection, &Selection::endMovement);
  connect(m_gestures, &MapGestures::hovered, this, [this, selection](const Cursor& entry) {
    if (isOnText()) selection->setHover(entry);
  });
  connect(m_gestures, &MapGestures::clicked, this, [this, selection](const Cursor& entry, Qt::KeyboardModifiers keys) {
    m_pinBeforeClick = selection->pin();
    if (keys.testFlag(Qt::ShiftModifier) && keys.testFlag(Qt::ControlModifier)) {
      m_runs.lockPair(entry);
    } else if (keys.testFlag(Qt::ShiftModifier)) {
      // By distance there may be no key at a place.
      if (entry.key) selection->pinKey(*entry.key);
    } else {
      selection->setPin(entry);
    }
  });
  connect(m_gestures, &MapGestures::fitWanted, this, [this, selection] {
    // The first click of a double click was not meant as a pin.
    selection->setPin(m_pinBeforeClick);
    emit fitWanted();
  });
  connect(m_gestures, &MapGestures::menuWanted, this, &MapPane::showMenu);
  connect(m_gestures, &MapGestures::splitWanted, this, [this](double place) {
    PaneState state = m_state;
    state.split = place;
    change(state);
  });
}

void MapPane::setState(const PaneState& state) {
  assert(QThread::currentThread() == thread());
  if (state == m_state) return;
  if (state.quantity != m_state.quantity) m_wasMixing = false;
  PaneState recolouredOnly = state;
  recolouredOnly.colours = m_state.colours;
  recolouredOnly.split = m_state.split;
  // A picture on its way for another head or quantity is never shown.
  if (recolouredOnly != m_state) m_pictures.cancel();
  m_state = state;
  m_message.clear();
  m_pictures.retryColours();
  m_area->plot().setDivider({m_state.sides, m_state.split});
  refreshLater();
}

void MapPane::change(const PaneState& state) {
  if (state == m_state) return;
  setState(state);
  emit activated();
  emit stateChanged();
}

void MapPane::setTool(MapTool tool) { m_gestures->setTool(tool); }

void MapPane::setProportions(Proportions proportions) { m_area->plot().setProportions(proportions); }

void MapPane::cancelGesture() { m_gestures->cancel(); }

void MapPane::setRole(Role role) {
  m_role = role;
  update();
}

void MapPane::setContrast() {
  const PicturePointer shown = picture();
  if (!shown || shown->summary->empty) return;
  PaneState state = m_state;
  const auto [lower, upper] = contrastLimits(*shown);
  if (!(lower < upper)) return;
  state.colours.lower = lower;
  state.colours.upper = upper;
  change(state);
}

void MapPane::chooseNearest() {
  const auto nearest = m_heads.nearest(m_state);
  if (!nearest) return;
  PaneState state = m_state;
  state.other = nearest;
  // Both are to be seen: one alone says nothing of how near they are.
  if (state.sides == Sides::left || state.sides == Sides::right) state.setSides(Sides::splitVertically);
  change(state);
}

MapPlot& MapPane::plot() const { return m_area->plot(); }

ColourBar& MapPane::bar() const { return m_area->bar(); }

void MapPane::followRuns() {
  // At another step of a training nothing flickers: the picture stays until the next one is there.
  const QString steps = shownSteps(m_runs).of;
  const bool otherStep = !steps.isEmpty() && steps == std::exchange(m_shownOf, steps);
  if (!otherStep) {
    m_pictures.drop([this](const PictureContent& content) { return !m_heads.holds(content); });
  }
  m_gestures->cancel();
  followText();
  showPictures();
  refreshLater();
}

bool MapPane::isHeld() const {
  const PicturePointer shown = picture();
  return shown && !m_heads.holds(shown->request.content);
}

void MapPane::followText() {
  const Run* reference = m_heads.reference(m_state);
  const int text = reference != nullptr ? reference->text : 0;
  m_gestures->setLength(length());
  // A picture of another text has other axes.
  if (m_pictures.drop([text](const PictureContent& content) { return content.text != text; })) showPictures();
}

bool MapPane::isOnText() const {
  const Run* reference = m_heads.reference(m_state);
  return reference == nullptr || m_runs.isOnText(reference->id);
}

void MapPane::chooseText() {
  if (isOnText()) return;
  const auto shown = m_state.sides == Sides::right ? m_heads.right(m_state) : m_heads.left(m_state);
  if (shown) m_runs.selection().setHead(shown->choice);
}

std::int64_t MapPane::length() const {
  const Run* reference = m_heads.reference(m_state);
  return reference == nullptr ? 0 : reference->trace->info().length;
}

void MapPane::followMixer() {
  const auto head = m_state.own ? std::nullopt : m_heads.left(m_state);
  if (!head || m_state.sides != Sides::left) return;
  const bool softmax = head->head.trace->info().mixer(head->head.layer).has_softmax();
  const Quantity from = softmax ? Quantity::mixing : Quantity::attention;
  if (m_state.quantity != from || (!softmax && !m_wasMixing)) return;
  PaneState state = m_state;
  state.setQuantity(softmax ? Quantity::attention : Quantity::mixing);
  setState(state);
  m_wasMixing = softmax;
  emit stateChanged();
}

void MapPane::followHead() {
  m_pictures.cancel();
  followMixer();
  followText();
  refreshLater();
}

void MapPane::refreshLater() {
  if (m_refreshQueued || isHidden()) return;
  m_refreshQueued = true;
  QMetaObject::invokeMethod(this, &MapPane::refresh, Qt::QueuedConnection);
}

View MapPane::view() const {
  const std::int64_t length = this->length();
  if (length < 1) return {{0, 1}, {0, 1}};
  const View view = m_runs.placeIn(m_heads.reference(m_state)->text).view;
  if (view.rows.size() < 1 || view.columns.size() < 1) return wholeView(length);
  return clamped(view, length);
}

QString MapPane::shadedContent() const {
  PaneState state = m_state;
  state.colours = {};
  state.split = 0;
  const auto head = m_heads.left(m_state);
  const View shown = view();
  QStringList parts{QString::fromUtf8(QJsonDocument(state.toJson()).toJson(QJsonDocument::Compact))};
  parts += QString::number(static_cast<int>(m_state.effectiveScale()));
  if (head) parts += QStringLiteral("%1 %2 %3").arg(head->name.run).arg(head->choice.layer).arg(head->choice.head);
  for (const std::int64_t end : {shown.rows.begin, shown.rows.end, shown.columns.begin, shown.columns.end}) {
    parts += QString::number(end);
  }
  return parts.join(QLatin1Char(' '));
}

void MapPane::takeLimits(const MapPicture& picture) {
  const Shading& used = picture.request.shading;
  const bool automatic = !used.colours.lower && !used.colours.upper && used.scale == m_state.effectiveScale();
  const ShownSteps steps = shownSteps(m_runs);
  if (!automatic || steps.of.isEmpty()) return;
  m_steps.take(steps, shadedContent(), {picture.colours.lower, picture.colours.upper});
}

Shading MapPane::shading() const {
  const MapPlot& plot = m_area->plot();
  Shading shading{m_state.colours, m_state.effectiveScale(), plot.groundColour().rgb(), plot.blankColour().rgb()};
  const ShownSteps steps = shownSteps(m_runs);
  if (!steps.of.isEmpty()) shading.steps = m_steps.limits(steps, shadedContent());
  return shading;
}

MapPane::Axes MapPane::axesOf(const PictureContent& content) const {
  const auto samePlaces = [](const PictureSide& side) { return side.samePositions(); };
  // A distance is one of a run's own tokens.
  if (!std::ranges::all_of(content.sides, samePlaces)) return {};
  if (m_state.axes) return {*m_state.axes, {}};
  std::vector<HeadOf> heads;
  for (const PictureSide& side : content.sides) heads.push_back(side.head);
  if (content.minus) heads.push_back(*content.minus);
  for (const HeadOf& head : heads) {
    if (default_axes(content.quantity, head, length()) != MapAxes::distance) continue;
    const QString time = QString::number(decay_time_of(head), 'g', 2);
    if (heads.size() == 1) return {MapAxes::distance, tr("decay time %1 tokens").arg(time)};
    return {MapAxes::distance, tr("%1: decay time %2 tokens").arg(m_heads.axisRunOf(head).name, time)};
  }
  return {};
}

View MapPane::shownView() const {
  View shown = view();
  if (m_axes.are == MapAxes::distance) shown.distances = shownDistances(shown, length());
  return shown;
}

PictureRequest MapPane::completed(const PictureContent& content) const {
  PictureRequest request;
  request.content = content;
  // The part that was read: the rest of the plot stays blank.
  const View shown = shownView();
  const auto read = [end = content.covered()](const Range& range) {
    return Range{range.begin, std::min(range.end, end)};
  };
  request.view = {read(shown.rows), read(shown.columns)};
  const bool byDistance = content.axes == MapAxes::distance;
  if (byDistance) request.view.distances = shown.distances;
  const PixelSize all = m_area->plot().devicePixels();
  const auto share = [](std::int64_t pixels, const Range& part, const Range& whole) {
    return std::max<std::int64_t>(1, (pixels * part.size() + whole.size() - 1) / whole.size());
  };
  request.pixels = {share(all.rows, request.view.rows, shown.rows),
                    share(all.columns, request.view.columns, shown.columns)};
  if (byDistance) request.pixels = {all.rows, share(all.columns, request.view.rows, shown.rows)};
  request.shading = shading();
  request.skipTolerance = PanePictures::toleranceOf(request);
  request.forColours = true;
  return request;
}

void MapPane::refresh() {
  m_refreshQueued = false;
  if (isHidden()) return m_pictures.cancel();
  MapPlot& plot = m_area->plot();
  if (m_runs.empty()) return showNothing({});
  followText();
  WantedContent wanted = m_heads.content(m_state);
  m_axes = wanted.content ? axesOf(*wanted.content) : Axes{};
  if (wanted.content) wanted.content->axes = m_axes.are;
  const PlotGeometry before = plot.geometryOfView();
  plot.setView(shownView(), m_axes.are);
  plot.setCaption(m_axes.reason);
  if (plot.geometryOfView().view != before.view || m_axes.are != before.axes) m_gestures->hoverAgain();
  if (!wanted.content) return showNothing(wanted.notice);
  const auto longest =
      std::max_element(wanted.content->sides.begin(), wanted.content->sides.end(),
                       [](const PictureSide& a, const PictureSide& b) { return a.covered() < b.covered(); });
  const AxisRun run = m_heads.axisRunOf(longest->head);
  plot.setRun(run);
  const PictureRequest complete = completed(*wanted.content);
  if (complete.view.rows.size() < 1 || complete.view.columns.size() < 1) {
    return showNothing(tr("%1 was run over %2 tokens and has read nothing here. Backspace goes back.")
                           .arg(run.name)
                           .arg(longest->head.trace->info().length));
  }
  if (!picture()) plot.setNotice({});
  m_pictures.want(complete);
  showControls();
  showTexts();
  followCursor();
}

void MapPane::showPictures() {
  assert(QThread::currentThread() == thread());
  const PicturePointer shown = picture();
  if (shown && m_pictures.isExact() && !isHeld()) takeLimits(*shown);
  const bool empty = shown && shown->summary->empty;
  m_area->plot().setNotice(!empty ? QString()
                                  : tr("No key here is before its query: entries are at and below the diagonal. "
                                       "Backspace goes back."));
  m_area->plot().setPictures(m_pictures.layers());
  m_area->bar().setPicture(picture());
  showTexts();
  showControls();
}

void MapPane::showNothing(const QString& notice) {
  m_pictures.clear();
  m_message = notice;
  showPictures();
  m_area->plot().setNotice(notice);
}

void MapPane::showTexts() {
  if (isHeld()) return;
  const PicturePointer shown = picture();
  const PictureContent* content = shownContent();
  const auto& wanted = m_pictures.wanted();
  const QString& progress = m_pictures.progress();
  const bool waiting = wanted && !m_pictures.isExact();
  HeaderTexts texts;
  if (shown) {
    texts.detail = detailOf(*shown, waiting ? Finality::coarse : Finality::exact, m_heads, length());
    if (shown->request.shading.steps) texts.detail += m_steps.note();
    if (waiting && !progress.isEmpty()) texts.detail += QStringLiteral(" · ") + progress;
    texts.note = noteOf(*shown, m_heads, length());
  } else if (wanted) {
    texts.detail = progress.isEmpty() ? tr("computing …") : progress;
  }
  if (!m_copied.isEmpty()) texts.note = m_copied;
  m_title = content == nullptr ? nameOf(m_state.quantity) : titleOf(*content, m_heads);
  if (content != nullptr) {
    texts.heads = headsOf(*content, m_heads);
  } else if (const auto head = m_heads.left(m_state)) {
    texts.heads = m_heads.titleOf(head->head);
  }
  m_header->setTexts(texts);
  const QString meaning = content == nullptr ? QString() : meaningOf(*content);
  m_meaning->setText(meaning);
  m_meaning->setVisible(!meaning.isEmpty());
  setWhatsThis(termOf(m_state.quantity));
  // A notice stands in the place of the picture; a failure above the one that stays.
  m_failure->setText(m_message);
  m_failure->setVisible(!m_message.isEmpty() && wanted.has_value());
  followEntry();
}

const PictureContent* MapPane::shownContent() const {
  const PicturePointer shown = picture();
  if (isHeld()) return nullptr;
  if (shown) return &shown->request.content;
  const auto& wanted = m_pictures.wanted();
  return wanted ? &wanted->content : nullptr;
}

void MapPane::showReadout() {
  const PictureContent* content = isOnText() ? shownContent() : nullptr;
  m_header->readout().setReading(
      content == nullptr ? PaneReading()
                         : readingOf(*content, picture().get(), m_entry ? &*m_entry : nullptr, m_runs, m_area->plot()));
}

void MapPane::followEntry() {
  if (isHeld()) return;
  m_row->follow();
  const Cursor cursor = readPlace(m_runs.selection());
  const PictureContent* content = isHidden() || !isOnText() ? nullptr : shownContent();
  const std::int64_t length = m_runs.length();
  std::optional<EntryRequest> wanted;
  if (content != nullptr && cursor.query && cursor.key && *cursor.query < length) {
    const std::size_t side = sideShowing(*content, m_area->plot(), *cursor.query, *cursor.key);
    wanted = entryAt(*content, side, *cursor.query, *cursor.key);
  }
  if (!wanted) {
    m_runs.quickJobs().cancel(this, kEntry);
    m_entry.reset();
  } else if (!m_entry || m_entry->request != *wanted) {
    m_entry = EntryReading{*wanted, {}, {}};
    JobRunner::Request<float> job;
    job.work = [entry = *wanted](const Job& running) { return entryValue(entry, running); };
    job.done = [this](float value) {
      m_entry->value = value;
      showReadout();
    };
    job.failed = [this](const QString& message) {
      m_entry->failure = message;
      showReadout();
    };
    m_runs.quickJobs().submit(this, kEntry, std::move(job));
  }
  showReadout();
}

void MapPane::showControls() {
  HeaderContext context;
  context.runs = m_heads.runs();
  if (const auto left = m_heads.left(m_state)) context.head = left->name;
  if (const auto right = m_heads.right(m_state)) context.other = right->name;
  context.nearestKnown = m_heads.nearest(m_state).has_value();
  context.picture = picture();
  context.lacks = lacks();
  m_header->show(m_state, context);
}

std::map<Quantity, QString> MapPane::lacks() const {
  std::map<Quantity, QString> reasons;
  const auto add = [&](const std::optional<PaneHead>& pane) {
    if (!pane) return;
    const HeadOf& head = pane->head;
    for (int number = 0; number <= static_cast<int>(Quantity::mixing); ++number) {
      const auto quantity = static_cast<Quantity>(number);
      const std::string reason = why_not(head.trace->info(), head.layer, quantity);
      if (!reason.empty()) reasons.emplace(quantity, QString::fromStdString(reason));
    }
  };
  if (m_state.sides != Sides::right) add(m_heads.left(m_state));
  if (m_state.sides != Sides::left) add(m_heads.right(m_state));
  return reasons;
}

void MapPane::followCursor() {
  const Selection& selection = m_runs.selection();
  const Run* reference = m_heads.reference(m_state);
  const bool onText = isOnText();
  const TextPlace place = onText ? TextPlace{selection.pin(), {}, selection.locks()} : m_runs.placeIn(reference->text);
  m_area->plot().setMarks(place.pin, onText ? selection.hover() : Cursor(), place.locks);
  followEntry();
}

bool MapPane::isSettled() const {
  if (isHidden()) return true;
  const bool reading = m_entry && !m_entry->value && m_entry->failure.isEmpty();
  return !m_refreshQueued && !m_copying && m_pictures.isSettled() && !reading && m_area->plot().isDrawn();
}

std::optional<MapRequest> MapPane::request() const {
  if (!m_pictures.isExact() || isHeld()) return std::nullopt;
  const MapRequest& computed = m_pictures.exact()->computed;
  const bool read = computed.rows.size() > 0 && computed.columns.size() > 0;
  return read ? std::optional(computed) : std::nullopt;
}

std::optional<figure::MapFigure> MapPane::figure() const {
  const auto shown = shownMap();
  return shown ? std::optional(shown->figure()) : std::nullopt;
}

std::optional<ShownMap> MapPane::shownMap() const {
  if (!request()) return std::nullopt;
  const PicturePointer& exact = m_pictures.exact();
  // The line divides the plot; the picture ends where its runs do.
  const bool vertical = m_state.sides == Sides::splitVertically;
  const View plot = shownView();
  const bool byDistance = exact->request.content.axes == MapAxes::distance;
  // By distance all rows of the plot are of the picture.
  if (byDistance && !vertical) {
    return ShownMap{exact, m_state.sides, m_state.split,
                    textOf(headsOf(exact->request.content, m_heads)).toStdString()};
  }
  const bool ofRows = vertical == byDistance;
  const Range& all = ofRows ? plot.rows : plot.columns;
  const Range& part = ofRows ? exact->request.view.rows : exact->request.view.columns;
  const double line = static_cast<double>(all.begin) + m_state.split * static_cast<double>(all.size());
  const double split = (line - static_cast<double>(part.begin)) / static_cast<double>(part.size());
  return ShownMap{exact, m_state.sides, split, textOf(headsOf(exact->request.content, m_heads)).toStdString()};
}

QSize MapPane::roomAroundMap(const LabelledAxes& labelled) const {
  const QMargins plot = m_area->plot().roomAround(labelled);
  const int meaning = m_meaning->isHidden() ? 0 : m_meaning->sizeHint().height();
  return {2 * kInside + plot.left() + plot.right(),
          2 * kInside + m_header->sizeHint().height() + meaning + plot.top() + plot.bottom()};
}

// The map with its axes and colours, below a title that the menus of the header would not make.
QImage MapPane::grabPicture() const {
  const MapPlot& plot = m_area->plot();
  const QRect map = plot.geometryOfView().rect;
  const QMargins room = plot.roomAround(plot.labelledAxes());
  const QRect shown = QRect(map.left() - room.left(), map.top() - room.top(), room.left() + map.width() + room.right(),
                            room.top() + map.height() + room.bottom())
                          .translated(plot.pos());
  const QPixmap drawn = m_area->grab(shown);
  QFont bold = font();
  bold.setWeight(QFont::DemiBold);
  const int line = QFontMetrics(bold).height() + 2 * kInside;
  const double ratio = drawn.devicePixelRatio();
  QImage all((QSizeF(shown.width(), shown.height() + line) * ratio).toSize(), QImage::Format_RGB32);
  all.setDevicePixelRatio(ratio);
  all.fill(palette().color(QPalette::Window));
  QPainter painter(&all);
  painter.drawPixmap(0, line, drawn);
  painter.setFont(bold);
  painter.setPen(palette().color(QPalette::WindowText));
  painter.drawText(QRect(kInside, 0, shown.width() - 2 * kInside, line), Qt::AlignLeft | Qt::AlignVCenter,
                   QFontMetrics(bold).elidedText(m_title, Qt::ElideMiddle, shown.width() - 2 * kInside));
  return all;
}

void MapPane::copyEntries(std::optional<MapLine::Along> along, const Cursor& at) {
  const PictureContent* content = shownContent();
  if (content == nullptr || !at.query || !at.key) return;
  const std::size_t side = sideShowing(*content, m_area->plot(), *at.query, *at.key);
  const auto entry = entryAt(*content, side, *at.query, *at.key);
  if (!entry) return;
  const AxisRun run = m_heads.axisRunOf(entry->head);
  const View shown = view();
  EntryLine line{*entry, along, run.own(shown.rows), run.own(shown.columns)};
  // The part of its lines that the map shows: by distance more keys than the view has.
  if (m_axes.are == MapAxes::distance) line.columns = run.own(Range{0, shown.rows.end});
  JobRunner::Request<EntryTable> job;
  job.work = [line](const Job& running) { return tableOf(line, running); };
  job.done = [this](const EntryTable& table) {
    QGuiApplication::clipboard()->setText(QString::fromStdString(table.text));
    m_copying = false;
    m_copied = table.entries == 1 ? tr("copied 1 value") : tr("copied %1 values").arg(table.entries);
    m_copiedShown.start();
    showTexts();
  };
  job.failed = [this](const QString& message) {
    m_copying = false;
    m_message = message;
    showTexts();
  };
  m_copying = true;
  m_runs.jobs().submit(this, kCopy, std::move(job));
}

void MapPane::showProfile(MapLine::Along along, const Cursor& at) {
  const PictureContent* content = shownContent();
  if (content == nullptr || !at.query || !at.key) return;
  const std::size_t side = sideShowing(*content, m_area->plot(), *at.query, *at.key);
  const auto head = m_heads.choiceOf(content->sides[side].head);
  if (!head) return;
  m_runs.selection().setHead(*head);
  m_runs.selection().setPin(at);
  emit profileWanted(along);
}

void MapPane::showMenu(const Cursor& at, const QPoint& where) {
  const PictureContent* content = isOnText() ? shownContent() : nullptr;
  if (content == nullptr) return;
  const bool pair = at.query && at.key;
  const std::size_t side = pair ? sideShowing(*content, m_area->plot(), *at.query, *at.key) : 0;
  const PaneMenu::Names names{at.query ? placeText(*content, side, *at.query) : QString(),
                              at.key ? placeText(*content, side, *at.key) : QString()};
  const auto firstKey = is_of_attention(m_state.quantity) ? std::optional(m_state.effectiveFirstKey()) : std::nullopt;
  auto* menu = new PaneMenu(m_runs, at, names, firstKey, this);
  connect(menu, &PaneMenu::pictureWanted, this, [this] { QGuiApplication::clipboard()->setImage(grabPicture()); });
  connect(menu, &PaneMenu::entriesWanted, this,
          [this, at](std::optional<MapLine::Along> along) { copyEntries(along, at); });
  connect(menu, &PaneMenu::profileWanted, this, [this, at](MapLine::Along along) { showProfile(along, at); });
  connect(menu, &PaneMenu::zoomWanted, this, &MapPane::zoomWanted);
  connect(menu, &PaneMenu::coloursWanted, this, [this, where] { m_header->openColours(where); });
  connect(menu, &PaneMenu::exportWanted, this, &MapPane::exportWanted);
  connect(menu, &PaneMenu::firstKeyWanted, this, [this](FirstKey wanted) {
    PaneState state = m_state;
    state.setFirstKey(wanted);
    change(state);
  });
  menu->popup(where);
}

bool MapPane::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() == QEvent::FocusIn) emit activated();
  if (event->type() == QEvent::ContextMenu) {
    // A menu of the keyboard opens at the pin. The gestures open the mouse's: they know a drag from a click.
    const auto* menu = static_cast<QContextMenuEvent*>(event);
    if (menu->reason() == QContextMenuEvent::Keyboard) showMenu(m_runs.selection().pin(), menu->globalPos());
    return true;
  }
  return QWidget::eventFilter(watched, event);
}

void MapPane::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange) refreshLater();
  QWidget::changeEvent(event);
}

void MapPane::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  refreshLater();
}

void MapPane::paintEvent(QPaintEvent* /*event*/) {
  if (m_role != Role::active) return;
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setPen(QPen(palette().color(QPalette::Highlight), kFrame));
  const double half = kFrame / 2.0;
  painter.drawRoundedRect(QRectF(rect()).adjusted(half, half, -half, -half), kInside, kInside);
}

void MapPane::mousePressEvent(QMouseEvent* /*event*/) { emit activated(); }

}  // namespace foxscope::gui
