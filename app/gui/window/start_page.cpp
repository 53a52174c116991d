#include "app/gui/window/start_page.h"

#include <QDir>
#include <QFileInfo>
#include <QGridLayout>
#include <QLabel>
#include <QPushButton>
#include <QVBoxLayout>

namespace foxscope::gui {
namespace {

constexpr int kColumnWidthInCharacters = 84;

QLabel* wrapped(const QString& text) {
  auto* label = new QLabel(text);
  label->setWordWrap(true);
  return label;
}

}  // namespace

StartPage::StartPage(QWidget* parent) : QWidget(parent) {
  auto* outer = new QHBoxLayout(this);
  auto* column = new QWidget;
  column->setMaximumWidth(fontMetrics().averageCharWidth() * kColumnWidthInCharacters);
  outer->addStretch();
  outer->addWidget(column, 10);
  outer->addStretch();
  auto* layout = new QVBoxLayout(column);
  layout->addStretch(1);
  auto* title = new QLabel(QStringLiteral("Foxscope"));
  QFont large = title->font();
  large.setPointSizeF(large.pointSizeF() * 2.2);
  large.setBold(true);
  title->setFont(large);
  layout->addWidget(title);
  layout->addWidget(wrapped(tr("See what each head of a Forgetting Transformer forgets, and when.")));
  layout->addSpacing(fontMetrics().height());

  auto* grid = new QGridLayout;
  grid->setColumnStretch(1, 1);
  grid->setVerticalSpacing(fontMetrics().height() / 2);
  int row = 0;
  const auto add = [&](const QString& text, const QString& tip, void (StartPage::*signal)()) {
    auto* button = new QPushButton(text);
    button->setMinimumHeight(fontMetrics().height() * 2);
    button->setToolTip(tip);
    connect(button, &QPushButton::clicked, this, signal);
    grid->addWidget(button, row, 0);
    grid->addWidget(wrapped(tip), row++, 1);
    return button;
  };
  m_demo = add(tr("Demo"),
               tr("A FoX (Pro) and a Transformer (Pro) of 12 million parameters read a chapter of a book: results "
                  "within seconds."),
               &StartPage::demoWanted);
  m_demo->setDefault(true);
  add(tr("Open model…"), tr("A checkpoint folder with config.json, weights and tokenizer (Ctrl+O)."),
      &StartPage::modelWanted);
  add(tr("Open text…"), tr("A text for the models to read (Ctrl+Shift+O); or type one at the right. F5 runs."),
      &StartPage::textWanted);
  add(tr("Open run or session…"), tr("A run file needs neither model nor GPU. Files can also be dropped anywhere."),
      &StartPage::fileWanted);
  layout->addLayout(grid);
  layout->addSpacing(fontMetrics().height() / 2);
  m_inputs = wrapped({});
  layout->addWidget(m_inputs);
  layout->addSpacing(fontMetrics().height() / 2);
  m_recent = new QVBoxLayout;
  layout->addLayout(m_recent);
  layout->addStretch(2);
}

void StartPage::setDemoAvailable(bool available) { m_demo->setEnabled(available); }

void StartPage::setInputs(const QString& text) { m_inputs->setText(text); }

void StartPage::setRecent(const QStringList& paths) {
  while (QLayoutItem* item = m_recent->takeAt(0)) {
    delete item->widget();
    delete item;
  }
  if (paths.isEmpty()) return;
  auto* title = new QLabel(tr("Opened lately"));
  QFont bold = title->font();
  bold.setBold(true);
  title->setFont(bold);
  m_recent->addWidget(title);
  for (const QString& path : paths) {
    QString shown = QDir::cleanPath(path);
    if (shown.startsWith(QDir::homePath() + '/')) shown = "~" + shown.mid(QDir::homePath().size());
    const QFileInfo file(shown);
    auto* link = new QLabel(QStringLiteral("<a href='open'>%1</a>&nbsp;&nbsp;%2")
                                .arg(file.fileName().toHtmlEscaped(), file.path().toHtmlEscaped()));
    link->setTextInteractionFlags(Qt::LinksAccessibleByMouse | Qt::LinksAccessibleByKeyboard);
    connect(link, &QLabel::linkActivated, this, [this, path] { emit pathWanted(path); });
    m_recent->addWidget(link);
  }
}

}  // namespace foxscope::gui
