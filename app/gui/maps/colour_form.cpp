#include "app/gui/maps/colour_form.h"

#include <QDoubleValidator>
#include <QFormLayout>
#include <QHBoxLayout>
#include <QSignalBlocker>
#include <QStandardItemModel>

namespace foxscope::gui {
namespace {

using figure::ColourMapName;
using figure::ColourScale;

constexpr int kShownDigits = 4;

QLineEdit* numberField(const QString& toolTip) {
  auto* field = new QLineEdit;
  auto* validator = new QDoubleValidator(field);
  validator->setLocale(QLocale::c());
  field->setValidator(validator);
  field->setToolTip(toolTip);
  return field;
}

std::optional<double> numberIn(const QLineEdit& field) {
  bool valid = false;
  const double value = QLocale::c().toDouble(field.text(), &valid);
  return valid ? std::optional(value) : std::nullopt;
}

QString textOf(double value) { return QLocale::c().toString(value, 'g', kShownDigits); }

}  // namespace

ColourForm::ColourForm(QWidget* parent)
    : QWidget(parent),
      m_map(new QComboBox),
      m_scale(new QComboBox),
      m_lower(numberField(tr("Value at the first colour"))),
      m_upper(numberField(tr("Value at the last colour"))),
      m_blank(numberField(tr("Smaller entries stay blank; for signed quantities, entries of smaller size"))),
      m_contrast(new QPushButton(tr("Auto contrast"))),
      m_automatic(new QPushButton(tr("Automatic"))) {
  auto* form = new QFormLayout(this);
  form->addRow(tr("Colours"), m_map);
  form->addRow(tr("Scale"), m_scale);
  form->addRow(tr("From"), m_lower);
  form->addRow(tr("To"), m_upper);
  form->addRow(tr("Blank below"), m_blank);
  auto* buttons = new QHBoxLayout;
  buttons->addWidget(m_contrast);
  buttons->addWidget(m_automatic);
  form->addRow(buttons);
  m_map->setToolTip(tr("Colour map; diverging is for signed quantities only"));
  m_scale->setToolTip(tr("Linear or logarithmic colours"));
  m_scale->addItem(tr("automatic"));
  m_scale->addItem(tr("linear"));
  m_scale->addItem(tr("logarithmic"));
  m_contrast->setToolTip(tr("Limits at the 0.1 and 99.9 percentiles of what is shown (C)"));
  m_automatic->setToolTip(tr("Reset limits, scale and colours for this quantity"));
  m_blank->setPlaceholderText(tr("nothing"));
  fillMaps(false);
  connect(m_map, &QComboBox::activated, this, &ColourForm::tell);
  connect(m_scale, &QComboBox::activated, this, &ColourForm::tell);
  for (QLineEdit* field : {m_lower, m_upper, m_blank}) {
    connect(field, &QLineEdit::editingFinished, this, &ColourForm::tell);
  }
  connect(m_contrast, &QPushButton::clicked, this, &ColourForm::contrastWanted);
  connect(m_automatic, &QPushButton::clicked, this, [this] { emit coloursWanted({}); });
}

void ColourForm::fillMaps(bool signs) {
  m_map->clear();
  m_map->addItem(tr("automatic"));
  for (const auto map : {ColourMapName::viridis, ColourMapName::cividis, ColourMapName::magma, ColourMapName::grey}) {
    m_map->addItem(nameOf(map), static_cast<int>(map));
  }
  if (signs) m_map->addItem(nameOf(ColourMapName::diverging), static_cast<int>(ColourMapName::diverging));
}

void ColourForm::setState(const PaneState& state, const PicturePointer& picture) {
  m_colours = state.colours;
  if (m_signs != state.hasSigns()) {
    m_signs = state.hasSigns();
    fillMaps(m_signs);
  }
  m_map->setCurrentIndex(m_colours.map ? m_map->findData(static_cast<int>(*m_colours.map)) : 0);
  m_scale->setCurrentIndex(!m_colours.scale ? 0 : *m_colours.scale == ColourScale::linear ? 1 : 2);
  m_scale->setEnabled(state.allowsLogarithm());
  if (picture) {
    m_shownLower = picture->colours.lower;
    m_shownUpper = picture->colours.upper;
    m_lower->setPlaceholderText(textOf(m_shownLower));
    m_upper->setPlaceholderText(textOf(m_shownUpper));
  }
  const auto show = [](QLineEdit& field, const std::optional<double>& value) {
    if (!field.hasFocus()) field.setText(value ? textOf(*value) : QString());
  };
  show(*m_lower, m_colours.lower);
  show(*m_upper, m_colours.upper);
  show(*m_blank, m_colours.blankBelow);
}

void ColourForm::tell() {
  ColourState wanted = m_colours;
  wanted.map.reset();
  if (m_map->currentIndex() > 0) wanted.map = static_cast<ColourMapName>(m_map->currentData().toInt());
  const std::optional<ColourScale> scales[] = {std::nullopt, ColourScale::linear, ColourScale::logarithmic};
  const bool otherScale = wanted.scale != scales[m_scale->currentIndex()];
  wanted.scale = scales[m_scale->currentIndex()];
  // A value that was only rounded for showing is not taken over.
  const auto take = [](const QLineEdit& field, std::optional<double>& value) {
    if (!value || field.text() != textOf(*value)) value = numberIn(field);
  };
  take(*m_lower, wanted.lower);
  take(*m_upper, wanted.upper);
  take(*m_blank, wanted.blankBelow);
  // Limits come in pairs: one by hand and one that follows the values could change places.
  if (wanted.lower && !wanted.upper) wanted.upper = m_shownUpper;
  if (wanted.upper && !wanted.lower) wanted.lower = m_shownLower;
  if (otherScale) {
    wanted.lower.reset();
    wanted.upper.reset();
  }
  if (wanted != m_colours) emit coloursWanted(wanted);
}

}  // namespace foxscope::gui
