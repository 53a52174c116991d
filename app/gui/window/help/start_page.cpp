#include "app/gui/window/help/start_page.h"

#include <algorithm>
#include <array>

#include <QCommandLinkButton>
#include <QDir>
#include <QEvent>
#include <QFileInfo>
#include <QHBoxLayout>
#include <QLabel>
#include <QPushButton>
#include <QScrollArea>
#include <QVBoxLayout>

#include "app/gui/views/theme.h"
#include "app/gui/window/figures/thumbnails.h"

namespace foxscope::gui {
namespace {

constexpr int kColumnWidthInCharacters = 96;
constexpr double kTitleSize = 2.2;
constexpr int kMostPictureShare = 3;  // of the page's height: a third

struct Question {
  const char* session;  ///< beside the demo's
  const char* words;
  const char* answer;
};
constexpr std::array kQuestions{
    Question{"demo-forgets.json", QT_TRANSLATE_NOOP("foxscope::gui::StartPage", "What does this head forget?"),
             QT_TRANSLATE_NOOP("foxscope::gui::StartPage",
                               "F and A of one head of a FoX, its gate along a chapter, where it forgets most")},
    Question{"demo-wins.json", QT_TRANSLATE_NOOP("foxscope::gui::StartPage", "Where does FoX win?"),
             QT_TRANSLATE_NOOP("foxscope::gui::StartPage",
                               "The loss of every token, FoX against a Transformer, and where they differ")},
    Question{"demo-remembers.json", QT_TRANSLATE_NOOP("foxscope::gui::StartPage", "Which heads remember the title?"),
             QT_TRANSLATE_NOOP("foxscope::gui::StartPage",
                               "Every head coloured by what its gates have left of the title at the end of the text")}};

void clearLayout(QLayout& layout) {
  while (QLayoutItem* item = layout.takeAt(0)) {
    if (item->layout() != nullptr) clearLayout(*item->layout());
    delete item->widget();
    delete item;
  }
}

QLabel* wrapped(const QString& text) {
  auto* label = new QLabel(text);
  label->setWordWrap(true);
  return label;
}

QLabel* heading(const QString& text, double size) {
  auto* label = new QLabel(text);
  QFont font = label->font();
  font.setPointSizeF(font.pointSizeF() * size);
  font.setWeight(QFont::DemiBold);
  label->setFont(font);
  return label;
}

}  // namespace

StartPage::StartPage(QWidget* parent)
    : QWidget(parent), m_column(new QWidget), m_picture(new QLabel), m_questions(new QVBoxLayout) {
  m_column->setMaximumWidth(fontMetrics().averageCharWidth() * kColumnWidthInCharacters);
  auto* column = new QVBoxLayout(m_column);
  const int line = fontMetrics().height();
  column->setContentsMargins(line, line, line, line);
  column->addStretch(1);
  column->addWidget(heading(QStringLiteral("Foxscope"), kTitleSize));
  column->addWidget(wrapped(tr("See what each head of a Forgetting Transformer forgets, and when.")));
  // Missing inputs are named where they are seen however low the page is.
  m_inputs = heading({}, 1);
  m_inputs->setWordWrap(true);
  m_inputs->hide();
  column->addWidget(m_inputs);
  m_left = new QVBoxLayout;
  column->addLayout(m_left);
  column->addSpacing(line / 2);
  m_picture->setAccessibleName(tr("Forget matrix and attention of a head, beside the text that it read"));
  m_picture->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Fixed);
  column->addWidget(m_picture);
  column->addSpacing(line / 2);
  addQuestions(*column);
  addButtons(*column);
  m_recent = new QVBoxLayout;
  column->addLayout(m_recent);
  column->addStretch(2);

  auto* inside = new QWidget;
  auto* middle = new QHBoxLayout(inside);
  middle->setContentsMargins(0, 0, 0, 0);
  middle->addStretch();
  middle->addWidget(m_column, 10);
  middle->addStretch();
  auto* scroll = new QScrollArea;
  scroll->setFrameShape(QFrame::NoFrame);
  scroll->setWidgetResizable(true);
  scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  scroll->setWidget(inside);
  auto* all = new QVBoxLayout(this);
  all->setContentsMargins(0, 0, 0, 0);
  all->addWidget(scroll);
}

void StartPage::addQuestions(QVBoxLayout& column) {
  column.addLayout(m_questions);
  m_questions->setSpacing(2);
  for (const Question& question : kQuestions) {
    auto* button = new QCommandLinkButton(tr(question.words), tr(question.answer));
    button->setObjectName(QString::fromLatin1(question.session));
    m_questions->addWidget(button);
  }
  column.addSpacing(fontMetrics().height() / 2);
}

void StartPage::addButtons(QVBoxLayout& column) {
  auto* row = new QHBoxLayout;
  const auto add = [&](const QString& text, const QString& tip, void (StartPage::*signal)()) {
    auto* button = new QPushButton(text);
    button->setToolTip(tip);
    connect(button, &QPushButton::clicked, this, signal);
    row->addWidget(button);
    return button;
  };
  m_demo = add(tr("Demo"),
               tr("A FoX (Pro) and a Transformer (Pro) of 12 million parameters read a chapter of a book: results "
                  "within seconds."),
               &StartPage::demoWanted);
  m_demo->setDefault(true);
  add(tr("Open model…"),
      tr("A checkpoint folder with config.json, weights and tokenizer, or what `foxscope train` wrote (Ctrl+O)."),
      &StartPage::modelWanted);
  add(tr("Open text…"), tr("A text for the models to read (Ctrl+Shift+O); or type one at the right. F5 runs."),
      &StartPage::textWanted);
  add(tr("Open file…"),
      tr("A run file, an evaluation or a session (Ctrl+Alt+O): it needs neither model nor GPU. Files can also be "
         "dropped anywhere."),
      &StartPage::fileWanted);
  m_tour = add(tr("Tour"), tr("The demo, and six steps through the window"), &StartPage::tourWanted);
  row->addStretch(1);
  column.addLayout(row);
}

void StartPage::setDemo(const QString& demo) {
  m_demo->setEnabled(!demo.isEmpty());
  m_tour->setEnabled(!demo.isEmpty());
  for (const Question& question : kQuestions) {
    auto* button = findChild<QCommandLinkButton*>(QString::fromLatin1(question.session));
    const QString session = QFileInfo(demo).dir().filePath(QString::fromLatin1(question.session));
    button->setVisible(!demo.isEmpty() && QFileInfo::exists(session));
    connect(button, &QCommandLinkButton::clicked, this, [this, session] { emit questionAsked(session); });
  }
}

void StartPage::setInputs(const QString& text) {
  m_inputs->setText(text);
  m_inputs->setVisible(!text.isEmpty());
}

void StartPage::setLeft(const std::vector<LeftWork>& works) {
  clearLayout(*m_left);
  for (const LeftWork& work : works) {
    QString about = tr("Kept when the window ended without being closed. Nothing is computed again.");
    if (!work.left.isEmpty()) {
      about = tr("Nothing is computed again, but %1: too large to be kept, F5 makes it again.")
                  .arg(work.left.join(QStringLiteral(", ")));
    }
    auto* row = new QHBoxLayout;
    auto* button = new QCommandLinkButton(tr("Continue: %1").arg(work.title), about);
    button->setObjectName(QStringLiteral("continue"));
    if (!work.picture.isNull()) {
      button->setIcon(QPixmap::fromImage(work.picture));
      button->setIconSize(kThumbnail);
    }
    connect(button, &QCommandLinkButton::clicked, this,
            [this, session = work.session] { emit continueWanted(session); });
    row->addWidget(button, 1);
    auto* discard = new QPushButton(tr("Discard"));
    discard->setToolTip(tr("Remove what was kept of this window"));
    connect(discard, &QPushButton::clicked, this, [this, session = work.session] { emit discardWanted(session); });
    row->addWidget(discard, 0, Qt::AlignVCenter);
    m_left->addLayout(row);
    if (m_left->count() == 1 && isVisible()) button->setFocus();
  }
}

void StartPage::setRecent(const QStringList& paths) {
  clearLayout(*m_recent);
  if (paths.isEmpty()) return;
  m_recent->addSpacing(fontMetrics().height() / 2);
  m_recent->addWidget(heading(tr("Opened lately"), 1));
  std::vector<QPixmap> pictures;
  for (const QString& path : paths) pictures.push_back(thumbnailOf(path));
  // Without any, names need no room for them.
  const bool any = std::ranges::any_of(pictures, [](const QPixmap& picture) { return !picture.isNull(); });
  for (const QString& path : paths) {
    QString shown = QDir::cleanPath(path);
    if (shown.startsWith(QDir::homePath() + '/')) shown = "~" + shown.mid(QDir::homePath().size());
    const QFileInfo file(shown);
    auto* entry = new QWidget;
    auto* row = new QHBoxLayout(entry);
    row->setContentsMargins(0, 0, 0, 0);
    auto* picture = new QLabel;
    picture->setFixedSize(kThumbnail);
    picture->setAlignment(Qt::AlignCenter);
    picture->setPixmap(pictures[static_cast<std::size_t>(paths.indexOf(path))]);
    if (!any) picture->hide();
    row->addWidget(picture);
    auto* link = new QLabel(QStringLiteral("<a href='open'>%1</a><br>%2")
                                .arg(file.fileName().toHtmlEscaped(), file.path().toHtmlEscaped()));
    link->setTextInteractionFlags(Qt::LinksAccessibleByMouse | Qt::LinksAccessibleByKeyboard);
    connect(link, &QLabel::linkActivated, this, [this, path] { emit pathWanted(path); });
    row->addWidget(link, 1);
    m_recent->addWidget(entry);
  }
}

void StartPage::placePicture() {
  const QPixmap picture(isDark(palette()) ? QStringLiteral(":/help/start-dark.png")
                                          : QStringLiteral(":/help/start-light.png"));
  const double ratio = devicePixelRatioF();
  const int margins = 2 * fontMetrics().height();
  const QSize room(std::min(width(), m_column->maximumWidth()) - margins, height() / kMostPictureShare);
  QPixmap scaled = picture.scaled(room * ratio, Qt::KeepAspectRatio, Qt::SmoothTransformation);
  scaled.setDevicePixelRatio(ratio);
  m_picture->setPixmap(scaled);
}

void StartPage::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  placePicture();
}

void StartPage::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange) placePicture();
}

}  // namespace foxscope::gui
