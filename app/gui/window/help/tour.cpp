#include "app/gui/window/help/tour.h"

#include <algorithm>

#include <QEvent>
#include <QHBoxLayout>
#include <QKeyEvent>
#include <QLabel>
#include <QPainter>
#include <QPainterPath>
#include <QPushButton>
#include <QVBoxLayout>

#include "backend/base/index.h"

namespace foxscope::gui {
namespace {

constexpr int kGap = 16;
constexpr int kOutline = 3;
constexpr int kShade = 110;  // of 255
constexpr int kCardCharacters = 48;
constexpr double kStepTitleSize = 1.25;

}  // namespace

Tour::Tour(std::vector<Step> steps, QWidget& window)
    : QWidget(&window),
      m_steps(std::move(steps)),
      m_card(new QFrame(this)),
      m_title(new QLabel),
      m_text(new QLabel),
      m_count(new QLabel),
      m_back(new QPushButton(tr("Back"))),
      m_next(new QPushButton) {
  setAttribute(Qt::WA_DeleteOnClose);
  setFocusPolicy(Qt::StrongFocus);
  setAccessibleName(tr("Tour"));
  std::erase_if(m_steps, [](const Step& step) { return !step.part || !step.part->isVisible(); });
  m_card->setAutoFillBackground(true);
  m_card->setBackgroundRole(QPalette::Base);
  m_card->setFrameShape(QFrame::StyledPanel);
  QFont large = m_title->font();
  large.setPointSizeF(large.pointSizeF() * kStepTitleSize);
  large.setWeight(QFont::DemiBold);
  m_title->setFont(large);
  m_text->setWordWrap(true);
  m_text->setFixedWidth(fontMetrics().averageCharWidth() * kCardCharacters);
  m_text->setAlignment(Qt::AlignLeft | Qt::AlignTop);
  m_count->setEnabled(false);
  auto* end = new QPushButton(tr("End"));
  auto* buttons = new QHBoxLayout;
  buttons->addWidget(m_count);
  buttons->addStretch(1);
  for (QPushButton* button : {end, m_back, m_next}) {
    button->setFocusPolicy(Qt::NoFocus);
    buttons->addWidget(button);
  }
  auto* layout = new QVBoxLayout(m_card);
  layout->setContentsMargins(kGap, kGap, kGap, kGap);
  layout->addWidget(m_title);
  layout->addWidget(m_text);
  layout->addSpacing(kGap / 2);
  layout->addLayout(buttons);
  connect(end, &QPushButton::clicked, this, &QWidget::close);
  connect(m_back, &QPushButton::clicked, this, [this] { go(m_step - 1); });
  connect(m_next, &QPushButton::clicked, this, [this] { go(m_step + 1); });
  window.installEventFilter(this);
  setGeometry(window.rect());
  go(0);
  show();
  raise();
  setFocus();
}

void Tour::go(int step) {
  if (step >= steps()) {
    close();
    return;
  }
  m_step = std::max(0, step);
  const Step& shown = m_steps[index_of(m_step)];
  m_title->setText(shown.title);
  m_text->setText(shown.text);
  // A layout would measure the text at the card's width, which titles and buttons may make larger than the text's own.
  m_text->setFixedHeight(m_text->heightForWidth(m_text->minimumWidth()));
  m_count->setText(tr("%1 of %2").arg(m_step + 1).arg(steps()));
  m_back->setEnabled(m_step > 0);
  m_next->setText(m_step + 1 < steps() ? tr("Next") : tr("Done"));
  place();
  update();
}

QRect Tour::partRect() const {
  const QWidget* part = m_steps[index_of(m_step)].part;
  if (part == nullptr) return {};
  return QRect(mapFromGlobal(part->mapToGlobal(QPoint())), part->size()).intersected(rect());
}

// Where there is most room beside the part; over its middle where there is none.
void Tour::place() {
  // A label that wraps asks for less than it needs until it has been shown.
  m_text->setFixedHeight(m_text->heightForWidth(m_text->width()));
  m_card->layout()->activate();
  m_card->adjustSize();
  const QRect part = partRect();
  const QSize card = m_card->size();
  const int x = std::clamp(part.center().x() - card.width() / 2, kGap, std::max(kGap, width() - card.width() - kGap));
  const int y =
      std::clamp(part.center().y() - card.height() / 2, kGap, std::max(kGap, height() - card.height() - kGap));
  const int right = width() - part.right();
  const int below = height() - part.bottom();
  QPoint corner(x, y);
  if (right > card.width() + 2 * kGap) {
    corner.setX(part.right() + kGap);
  } else if (part.left() > card.width() + 2 * kGap) {
    corner.setX(part.left() - kGap - card.width());
  } else if (below > card.height() + 2 * kGap) {
    corner.setY(part.bottom() + kGap);
  } else if (part.top() > card.height() + 2 * kGap) {
    corner.setY(part.top() - kGap - card.height());
  }
  m_card->move(corner);
}

bool Tour::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() == QEvent::Resize && watched == parentWidget()) {
    setGeometry(parentWidget()->rect());
    place();
  }
  return QWidget::eventFilter(watched, event);
}

bool Tour::event(QEvent* event) {
  if (event->type() == QEvent::ShortcutOverride) event->accept();
  return QWidget::event(event);
}

void Tour::paintEvent(QPaintEvent* /*event*/) {
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  const QRectF part = QRectF(partRect()).adjusted(1, 1, -1, -1);
  QPainterPath shade;
  shade.addRect(rect());
  shade.addRect(part);
  painter.fillPath(shade, QColor(0, 0, 0, kShade));
  painter.setPen(QPen(palette().color(QPalette::Highlight), kOutline));
  painter.drawRect(part);
}

void Tour::keyPressEvent(QKeyEvent* event) {
  switch (event->key()) {
    case Qt::Key_Escape:
      close();
      return;
    case Qt::Key_Left:
    case Qt::Key_Backspace:
      return go(m_step - 1);
    case Qt::Key_Right:
    case Qt::Key_Space:
    case Qt::Key_Return:
    case Qt::Key_Enter:
      return go(m_step + 1);
    default:
      return;
  }
}

void Tour::mousePressEvent(QMouseEvent* /*event*/) { go(m_step + 1); }

}  // namespace foxscope::gui
