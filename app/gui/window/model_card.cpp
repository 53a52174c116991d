#include "app/gui/window/model_card.h"

#include <QDialogButtonBox>
#include <QTextBrowser>
#include <QVBoxLayout>

#include "app/description/facts.h"
#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/model/weights/checkpoint.h"

namespace foxscope::gui {
namespace {

constexpr int kCardColumns = 140;  ///< "14,792 bytes, SHA-256" and the digits in one line
constexpr int kCardRows = 40;

/// A heading and the lines below it.
struct CardPart {
  QString title;
  Facts facts;
};

struct CardInput {
  std::shared_ptr<const Trace> trace;
  QString model;
  QString file;
  QString made;
  QString command;
  double seconds = 0;
};

/// Rows of the one table of all parts, so that their values stand below one another.
QString partHtml(const CardPart& part) {
  QString html = QStringLiteral("<tr><td colspan='2' style='padding-top:8px'><h3>%1</h3></td></tr>")
                     .arg(part.title.toHtmlEscaped());
  for (const auto& [name, value] : part.facts) {
    html += QStringLiteral("<tr><td style='padding-right:14px; white-space:nowrap'>%1</td><td>%2</td></tr>")
                .arg(QString::fromStdString(name).toHtmlEscaped(), QString::fromStdString(value).toHtmlEscaped());
  }
  return html;
}

// A checkpoint that cannot be read says so; the run's own part stays.
void addCheckpoint(std::vector<CardPart>& parts, const CardInput& input) {
  CardPart part{ModelCard::tr("Checkpoint"), {}};
  try {
    const Checkpoint checkpoint = Checkpoint::open(input.model.toStdString());
    part.facts = {{"folder", checkpoint.folder().string()}};
    for (auto& fact : checkpointFacts(checkpoint)) part.facts.push_back(std::move(fact));
  } catch (const Error& error) {
    part.facts = {{"folder", input.model.toStdString()}, {"not read", error.what()}};
  }
  parts.push_back(std::move(part));
}

void addRun(std::vector<CardPart>& parts, const CardInput& input) {
  CardPart part{ModelCard::tr("Run"), runFacts(*input.trace)};
  const auto add = [&](const char* name, const QString& value) {
    if (!value.isEmpty()) part.facts.emplace_back(name, value.toStdString());
  };
  if (input.seconds > 0) add("time", ModelCard::tr("%1 s for the forward pass").arg(input.seconds, 0, 'f', 2));
  add("text", QString::fromStdString(textFact(input.trace->text().get())));
  add("run file", input.file);
  add("created", input.made);
  add("command", input.command);
  parts.push_back(std::move(part));
}

QString cardHtml(const CardInput& input) {
  std::vector<CardPart> parts;
  if (input.trace) addRun(parts, input);
  if (!input.model.isEmpty()) addCheckpoint(parts, input);
  QString html = QStringLiteral("<table cellspacing='0'>");
  for (const CardPart& part : parts) html += partHtml(part);
  html += QStringLiteral("</table>");
  if (input.trace && !input.trace->info().config.empty()) {
    html += QStringLiteral("<h3>config.json</h3><pre>%1</pre>")
                .arg(QString::fromStdString(input.trace->info().config).toHtmlEscaped());
  }
  return html;
}

}  // namespace

ModelCard::ModelCard(RunList& runs, const ListRow& row, QWidget* parent)
    : QDialog(parent), m_runs(runs), m_text(new QTextBrowser) {
  setAttribute(Qt::WA_DeleteOnClose);
  setWindowTitle(m_runs.nameOf(row));
  auto* layout = new QVBoxLayout(this);
  m_text->setAccessibleName(tr("What is known of %1").arg(m_runs.nameOf(row)));
  m_text->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  m_text->setFrameShape(QFrame::NoFrame);
  m_text->setCursorWidth(0);  // nothing is written here
  m_text->setPlainText(tr("Reading …"));
  layout->addWidget(m_text);
  auto* buttons = new QDialogButtonBox(QDialogButtonBox::Close);
  connect(buttons, &QDialogButtonBox::rejected, this, &ModelCard::reject);
  layout->addWidget(buttons);
  resize(fontMetrics().averageCharWidth() * kCardColumns, fontMetrics().height() * kCardRows);
  read(row);
}

QString ModelCard::text() const { return m_text->toPlainText(); }

void ModelCard::read(const ListRow& row) {
  CardInput input;
  if (row.model) input.model = m_runs.models()[index_of(*row.model)].path;
  if (const Run* run = m_runs.run(row.run)) {
    input.trace = run->trace;
    input.file = run->file;
    input.made = run->created;
    input.command = run->command;
    input.seconds = run->forwardSeconds;
  }
  JobRunner::Request<QString> request;
  request.work = [input](const Job&) { return std::optional(cardHtml(input)); };
  request.done = [this](const QString& html) { m_text->setHtml(html); };
  request.failed = [this](const QString& message) { m_text->setPlainText(message); };
  m_runs.quickJobs().submit(this, 0, std::move(request));
}

}  // namespace foxscope::gui
