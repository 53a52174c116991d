#include "app/gui/window/help/start_page.h"

#include <algorithm>
#include <array>

#include <QCommandLinkButton>
#include <QDir>
#include <QFileInfo>
#include <QHBoxLayout>
#include <QLabel>
#include <QPainter>
#include <QPainterPath>
#include <QPushButton>
#include <QScrollArea>
#include <QVBoxLayout>

#include "app/gui/document/remote/remote_place.h"
#include "app/gui/views/icon.h"
#include "app/gui/views/theme.h"
#include "app/gui/window/figures/thumbnails.h"

namespace foxscope::gui {
namespace {

constexpr int kColumnWidthInCharacters = 150;
constexpr double kTitleSize = 2.2;

struct Question {
  const char* session;  ///< beside the demo's
  const char* picture;  ///< of resources/help, light or dark
  const char* words;
  const char* answer;
};
constexpr std::array kQuestions{
    Question{"demo-forgets.json", "question-forgets",
             QT_TRANSLATE_NOOP("foxscope::gui::StartPage", "What does this head forget?"),
             QT_TRANSLATE_NOOP("foxscope::gui::StartPage",
                               "F and A of one head of a FoX, its gate along a chapter, where it forgets most")},
    Question{"demo-wins.json", "question-wins", QT_TRANSLATE_NOOP("foxscope::gui::StartPage", "Where does FoX win?"),
             QT_TRANSLATE_NOOP("foxscope::gui::StartPage",
                               "The loss of every token, FoX against a Transformer, and where they differ")},
    Question{"demo-remembers.json", "question-remembers",
             QT_TRANSLATE_NOOP("foxscope::gui::StartPage", "Which heads remember the title?"),
             QT_TRANSLATE_NOOP("foxscope::gui::StartPage",
                               "Every head coloured by what its gates have left of the title at the end of the text")}};

/// A question below a picture of its answer.
class QuestionCard : public QCommandLinkButton {
 public:
  QuestionCard(const QString& question, const QString& answer, const QString& picture)
      : QCommandLinkButton(question, answer), m_picture(picture) {
    setAutoDefault(true);  // Return asks it
    setAttribute(Qt::WA_Hover);
    QSizePolicy policy(QSizePolicy::Expanding, QSizePolicy::Fixed);
    policy.setHeightForWidth(true);
    setSizePolicy(policy);
  }
  [[nodiscard]] bool hasHeightForWidth() const override { return true; }
  [[nodiscard]] int heightForWidth(int width) const override {
    const Places places = placesIn(width);
    return places.answer.bottom() + 1 + kInside;
  }
  [[nodiscard]] QSize sizeHint() const override { return {kWidth, heightForWidth(kWidth)}; }
  [[nodiscard]] QSize minimumSizeHint() const override { return {kLeastWidth, heightForWidth(kLeastWidth)}; }

 protected:
  void paintEvent(QPaintEvent* /*event*/) override {
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    painter.setRenderHint(QPainter::SmoothPixmapTransform);
    const Places places = placesIn(width());
    const bool marked = underMouse() || hasFocus();
    const double line = hasFocus() ? 2 : 1;
    const QRectF frame = QRectF(rect()).adjusted(line / 2, line / 2, -line / 2, -line / 2);
    QPainterPath card;
    card.addRoundedRect(frame, kRound, kRound);
    painter.fillPath(card, palette().color(isDown() ? QPalette::Midlight : QPalette::AlternateBase));
    painter.save();
    painter.setClipPath(card);
    const QPixmap picture(QStringLiteral(":/help/%1-%2.png")
                              .arg(m_picture, isDark(palette()) ? QStringLiteral("dark") : QStringLiteral("light")));
    painter.drawPixmap(places.picture, picture, picture.rect());
    painter.restore();
    painter.setPen(palette().color(marked ? QPalette::Link : QPalette::WindowText));
    painter.setFont(titleFont());
    painter.drawText(places.title, Qt::TextWordWrap, text());
    painter.setFont(font());
    painter.setPen(mutedTextColour(palette()));
    painter.drawText(places.answer, Qt::TextWordWrap, description());
    painter.setPen(QPen(marked ? palette().color(QPalette::Highlight) : lineColour(palette()), line));
    painter.setBrush(Qt::NoBrush);
    painter.drawPath(card);
  }

 private:
  struct Places {
    QRect picture;
    QRect title;
    QRect answer;
  };
  [[nodiscard]] QFont titleFont() const {
    QFont bold = font();
    bold.setPointSizeF(bold.pointSizeF() * kQuestionSize);
    bold.setWeight(QFont::DemiBold);
    return bold;
  }
  [[nodiscard]] Places placesIn(int width) const {
    const auto below = [width](const QRect& above, const QFont& font, const QString& text, int gap) {
      const QRect room(kInside, above.bottom() + 1 + gap, width - 2 * kInside, QWIDGETSIZE_MAX);
      return QRect(room.topLeft(),
                   QSize(room.width(), QFontMetrics(font).boundingRect(room, Qt::TextWordWrap, text).height()));
    };
    Places places;
    places.picture = QRect(0, 0, width, width * kHigh / kWide);
    places.title = below(places.picture, titleFont(), text(), kInside);
    places.answer = below(places.title, font(), description(), 2);
    return places;
  }

  static constexpr int kWidth = 300;
  static constexpr int kLeastWidth = 150;
  static constexpr int kWide = 16;  // of the pictures
  static constexpr int kHigh = 10;
  static constexpr int kInside = 10;
  static constexpr double kRound = 6;
  static constexpr double kQuestionSize = 1.1;
  QString m_picture;
};

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

/// Says what going on with a window's work brings back, and what not.
QString aboutLeft(const LeftWork& work) {
  const auto names = [](const QStringList& list) { return list.join(QStringLiteral(", ")); };
  QStringList parts;
  if (!work.left.isEmpty()) parts += StartPage::tr("Not kept, F5 computes it again: %1.").arg(names(work.left));
  if (!work.waiting.isEmpty()) parts += StartPage::tr("Not run yet, F5 runs it: %1.").arg(names(work.waiting));
  if (!work.lost.isEmpty()) {
    parts += StartPage::tr("Not kept and lost, as its text or its model is another now: %1.").arg(names(work.lost));
  }
  if (parts.isEmpty()) {
    return StartPage::tr("Kept when the window ended without being closed. Nothing is computed again.");
  }
  parts += StartPage::tr("Nothing else is computed again.");
  return parts.join(' ');
}

}  // namespace

StartPage::StartPage(QWidget* parent) : QWidget(parent), m_column(new QWidget), m_questions(new QHBoxLayout) {
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
  addQuestions(*column);
  addButtons(*column);
  // From the demo to the questions, then to the other buttons.
  QWidget* before = m_demo;
  for (int place = 0; place < m_questions->count(); ++place) {
    QWidget* card = m_questions->itemAt(place)->widget();
    setTabOrder(before, card);
    before = card;
  }
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
  scroll->setFocusPolicy(Qt::NoFocus);
  inside->setBackgroundRole(QPalette::Base);
  inside->setAutoFillBackground(true);
  auto* all = new QVBoxLayout(this);
  all->setContentsMargins(0, 0, 0, 0);
  all->addWidget(scroll);
}

void StartPage::addQuestions(QVBoxLayout& column) {
  column.addLayout(m_questions);
  m_questions->setSpacing(fontMetrics().height());
  for (const Question& question : kQuestions) {
    auto* card = new QuestionCard(tr(question.words), tr(question.answer), QString::fromLatin1(question.picture));
    card->setObjectName(QString::fromLatin1(question.session));
    m_questions->addWidget(card, 1, Qt::AlignTop);
  }
  column.addSpacing(fontMetrics().height() / 2);
}

void StartPage::addButtons(QVBoxLayout& column) {
  auto* row = new QHBoxLayout;
  const auto add = [&](const QString& text, const char* icon, const QString& tip, void (StartPage::*signal)()) {
    auto* button = new QPushButton(themedIcon(QString::fromLatin1(icon)), text);
    button->setAutoDefault(true);
    button->setToolTip(tip);
    connect(button, &QPushButton::clicked, this, signal);
    row->addWidget(button);
    return button;
  };
  m_demo = add(tr("Demo"), "demo",
               tr("A FoX (Pro) and a Transformer (Pro) of 12 million parameters read a chapter of a book: results "
                  "within seconds."),
               &StartPage::demoWanted);
  m_demo->setDefault(true);
  add(tr("Open model…"), "model",
      tr("A checkpoint folder with config.json, weights and tokenizer, or what `foxscope train` wrote (Ctrl+O)."),
      &StartPage::modelWanted);
  add(tr("Open text…"), "text", tr("A text for the models to read (Ctrl+Shift+O); or type one at the right. F5 runs."),
      &StartPage::textWanted);
  add(tr("Open file…"), "file",
      tr("A run file, an evaluation or a session (Ctrl+Alt+O): it needs neither model nor GPU. Files can also be "
         "dropped anywhere."),
      &StartPage::fileWanted);
  m_tour = add(tr("Tour"), "tour", tr("The demo, and six steps through the window"), &StartPage::tourWanted);
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
    auto* row = new QHBoxLayout;
    auto* button = new QCommandLinkButton(tr("Continue: %1").arg(work.title), aboutLeft(work));
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
    QString shown = isRemote(path) ? path : QDir::cleanPath(path);
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

void StartPage::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  if (m_demo->isEnabled()) m_demo->setFocus(Qt::TabFocusReason);
}

}  // namespace foxscope::gui
