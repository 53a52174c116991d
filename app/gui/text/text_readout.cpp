#include "app/gui/text/text_readout.h"

#include <cmath>

#include <QCoreApplication>
#include <QStringList>

#include "app/gui/document/places.h"
#include "app/gui/text/text_tint.h"
#include "backend/agent/remote.h"
#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/map/pair_reading.h"
#include "backend/map/statistics/expert_use.h"

namespace foxscope::gui {
namespace {

QString tr(const char* text) { return QCoreApplication::translate("TextReadout", text); }

QString number(double value, int digits = 4) { return QString::number(value, 'g', digits); }

QString quoted(const QString& word) { return QStringLiteral("“%1”").arg(word.toHtmlEscaped()); }

QString bold(const QString& text) { return QStringLiteral("<b>%1</b>").arg(text); }

QString row(const QStringList& columns, const char* tag) {
  QString cells;
  for (const QString& column : columns)
    cells += QStringLiteral("<%1 align='left'>%2&nbsp;&nbsp;</%1>").arg(QLatin1String(tag), column);
  return QStringLiteral("<tr>%1</tr>").arg(cells);
}

/// One position: what it reads, what it predicts, its loss in every run. The word in question is bold.
QString rowOfPosition(const ReadoutRequest& request, std::int64_t position) {
  const TokenTable& tokens = *request.reference->tokens();
  const QString reads = quoted(readText(tokens, position, Whitespace::visible));
  const bool isKnown = tokens.id[index_of(position)] >= 0;
  const QString predicts =
      isKnown ? quoted(predictedText(tokens, position, Whitespace::visible)) : tr("what is not known");
  QStringList columns{QString::number(static_cast<qlonglong>(position)), position == request.cell ? bold(reads) : reads,
                      position + 1 == request.cell ? bold(predicts) : predicts};
  for (const auto& run : request.runs) {
    const auto token = TokenPlaces(*request.reference, *run.trace).tokenOfCell(position + 1);
    const bool known = token && !run.trace->per_token_loss().empty();
    columns += known ? number(static_cast<double>(run.trace->per_token_loss()[index_of(*token)])) : QStringLiteral("–");
  }
  return row(columns, "td");
}

QString tableOfPositions(const ReadoutRequest& request) {
  QStringList heads{tr("position"), tr("reads"), tr("predicts")};
  for (const auto& run : request.runs)
    heads += tr("loss of %1, nats").arg(run.name.toHtmlEscaped()).replace(' ', QStringLiteral("&nbsp;"));
  QString rows = row(heads, "th");
  if (request.cell > 0) rows += rowOfPosition(request, request.cell - 1);
  if (request.cell < request.reference->info().length) rows += rowOfPosition(request, request.cell);
  return QStringLiteral("<table cellspacing='0' cellpadding='1'>%1</table>").arg(rows);
}

/// "gate f = 0.99 at position 12", for the head that is chosen.
QString gateLine(const HeadOf& head, const QString& name, std::int64_t position) {
  const auto c = head.trace->cumulative_log_gate(head.layer, head.head);
  const auto n = static_cast<std::size_t>(position);
  const double f = std::exp(n == 0 ? c[0] : c[n] - c[n - 1]);
  const bool channels = head.trace->info().mixer(head.layer).decays_by_channel();
  return tr("%1: gate f = %2").arg(name, number(f)) + (channels ? tr(", geometric mean of its channels") : QString());
}

QString pairLine(const HeadOf& head, std::int64_t query, std::int64_t key) {
  const PairReading reading = pair_reading(head, query, key);
  const QString pair = QStringLiteral("(%1, %2)").arg(query).arg(key);
  const bool channels = head.trace->info().mixer(head.layer).decays_by_channel();
  QString line = QStringLiteral("F%1 = %2").arg(pair, number(reading.forget)) +
                 (channels ? tr(", mean of its channels") : QString());
  if (reading.has_attention) line += QStringLiteral(", A%1 = %2").arg(pair, number(reading.attention));
  if (reading.sink_share) line += tr(", on the sink %1").arg(number(*reading.sink_share));
  return line;
}

/// "experts of fox L3: 5 (0.62), 2 (0.38)", the heaviest first; empty where the run has none.
QString expertLine(const ReadoutRequest& request) {
  if (request.headRun < 0) return {};
  const auto& run = request.runs[index_of(request.headRun)];
  const auto layer = expert_layer(*run.trace, request.layer);
  const auto here = TokenPlaces(*request.reference, *run.trace).readerOfCell(request.cell);
  if (!layer || !here) return {};
  QStringList experts;
  for (const ReadExpert& each : experts_read(*run.trace, *layer, *here)) {
    experts += QStringLiteral("%1 (%2)").arg(each.expert).arg(number(each.weight, 2));
  }
  return tr("experts of %1 L%2: %3").arg(run.name.toHtmlEscaped()).arg(*layer).arg(experts.join(QStringLiteral(", ")));
}

QStringList headLines(const ReadoutRequest& request) {
  QStringList lines;
  if (request.headRun < 0) return lines;
  const auto& run = request.runs[index_of(request.headRun)];
  const HeadOf head{run.trace, request.layer, request.head};
  const QString name = QStringLiteral("%1 L%2 H%3").arg(run.name.toHtmlEscaped()).arg(request.layer).arg(request.head);
  const TokenPlaces places(*request.reference, *run.trace);
  const auto here = places.readerOfCell(request.cell);
  if (!here) return lines;
  try {
    const bool gated = forgets(run.trace->info(), request.layer);
    lines += gated ? gateLine(head, name, *here) : tr("%1: no forget gate").arg(name);
    // A pin that the run did not reach is as none.
    const auto inRun = [&](const std::optional<std::int64_t>& pin) {
      return pin ? places.readerOfCell(*pin).value_or(-1) : -1;
    };
    const std::int64_t pinnedQuery = inRun(request.pinnedQuery);
    const std::int64_t pinnedKey = inRun(request.pinnedKey);
    if (pinnedQuery >= *here) {
      lines += tr("from the pinned query: %1").arg(pairLine(head, pinnedQuery, *here));
    } else if (pinnedKey >= 0 && pinnedKey <= *here) {
      lines += tr("to the pinned key: %1").arg(pairLine(head, *here, pinnedKey));
    }
  } catch (const agent::ConnectionLost&) {
    throw;
  } catch (const agent::AskingStopped&) {
    throw;
  } catch (const Error&) {
    // Gates that were not kept: the rest of the read-out stands.
  }
  return lines;
}

}  // namespace

QString readoutOf(const ReadoutRequest& request) {
  QStringList lines{tableOfPositions(request)};
  if (request.cell == 0) {
    lines += tr("The token before the text: position 0 reads it, nothing predicts it.");
  } else if (request.cell == request.reference->info().length) {
    lines += tr("The last token: it is predicted, but no position reads it.");
  }
  lines += headLines(request);
  if (const QString experts = expertLine(request); !experts.isEmpty()) lines += experts;
  return QStringLiteral("<qt>%1</qt>").arg(lines.join(QStringLiteral("<br>")));
}

}  // namespace foxscope::gui
