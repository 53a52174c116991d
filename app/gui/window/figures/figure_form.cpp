#include "app/gui/window/figures/figure_form.h"

#include <QCheckBox>
#include <QComboBox>
#include <QFormLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QLocale>
#include <QSignalBlocker>
#include <QSpinBox>

#include "app/figure/figure_format.h"
#include "app/figure/quantity_text.h"
#include "backend/base/error.h"
#include "backend/base/index.h"

namespace foxscope::gui {
namespace {

constexpr int kLongestTraining = 100'000'000;
constexpr int kNameEms = 13;  ///< width of the names of fields
constexpr int kWidestMean = 100'001;

std::optional<double> numberOf(const QLineEdit& field, const QString& name) {
  const QString text = field.text().trimmed();
  if (text.isEmpty()) return std::nullopt;
  bool valid = false;
  const double value = QLocale::c().toDouble(text, &valid);
  if (!valid) {
    throw UsageError(FigureForm::tr("%1: “%2” is not a number: write one such as 0.5 or 1e-4, or leave the field empty")
                         .arg(name, text)
                         .toStdString());
  }
  return value;
}

/// A quantity's name without the stars of italics.
QString plainName(Quantity quantity) {
  return QString::fromStdString(figure::quantitySymbol(quantity)).remove(QLatin1Char('*'));
}

}  // namespace

FigureForm::FigureForm(QWidget* parent)
    : QWidget(parent),
      m_form(new QFormLayout(this)),
      m_title(new QLineEdit),
      m_palette(new QComboBox),
      m_legend(new QComboBox),
      m_smooth(new QSpinBox),
      m_trainLength(new QSpinBox),
      m_letters(new QCheckBox(tr("(a), (b) before the titles of panels"))),
      m_notes(new QCheckBox(tr("names of the heads, what a pixel is, what is grey"))) {
  m_form->setContentsMargins(0, 0, 0, 0);
  m_form->setFieldGrowthPolicy(QFormLayout::AllNonFixedFieldsGrow);
  m_title->setPlaceholderText(tr("none"));
  m_title->setAccessibleName(tr("Title"));
  m_title->setToolTip(tr("Above everything; *F* is an italic F"));
  m_form->addRow(tr("&Title"), m_title);
  m_palette->addItem(tr("by quantity"));
  for (const figure::NamedColourMap& map : figure::namedColourMaps()) m_palette->addItem(QString::fromLatin1(map.name));
  m_palette->setAccessibleName(tr("Palette"));
  m_palette->setToolTip(tr("Colours of maps; differences are blue, white and red, or grey if grey is chosen"));
  m_form->addRow(tr("&Palette"), m_palette);
  m_legend->setAccessibleName(tr("Legend"));
  m_legend->addItem(tr("where it covers nothing"), static_cast<int>(figure::LegendPlace::automatic));
  m_legend->addItem(tr("above the curves"), static_cast<int>(figure::LegendPlace::above));
  m_legend->addItem(tr("none"), static_cast<int>(figure::LegendPlace::none));
  m_form->addRow(tr("&Legend"), m_legend);
  m_smooth->setRange(-1, kWidestMean);
  m_smooth->setSingleStep(2);
  m_smooth->setValue(-1);
  m_smooth->setSpecialValueText(tr("by the length"));
  m_smooth->setSuffix(tr(" tokens"));
  m_smooth->setAccessibleName(tr("Width of the moving average"));
  m_smooth->setToolTip(tr("Width of the moving average, an odd number; 1 is none"));
  m_form->addRow(tr("&Mean of"), m_smooth);
  m_trainLength->setRange(0, kLongestTraining);
  m_trainLength->setSpecialValueText(tr("no line"));
  m_trainLength->setSuffix(tr(" tokens"));
  m_trainLength->setAccessibleName(tr("Training length"));
  m_trainLength->setToolTip(tr("A dashed line at the length that the models were trained on"));
  m_form->addRow(tr("T&rained on"), m_trainLength);
  m_letters->setChecked(true);
  m_form->addRow(QString(), m_letters);
  m_notes->setChecked(true);
  m_notes->setToolTip(tr("Words around the map; without them axes and colour bar are left, and a title of your own"));
  m_form->addRow(QString(), m_notes);
  m_fixedRows = m_form->rowCount();
  connect(m_title, &QLineEdit::textChanged, this, &FigureForm::changed);
  connect(m_palette, &QComboBox::currentIndexChanged, this, &FigureForm::changed);
  connect(m_legend, &QComboBox::currentIndexChanged, this, &FigureForm::changed);
  connect(m_smooth, &QSpinBox::valueChanged, this, &FigureForm::changed);
  connect(m_trainLength, &QSpinBox::valueChanged, this, &FigureForm::changed);
  connect(m_letters, &QCheckBox::toggled, this, &FigureForm::changed);
  connect(m_notes, &QCheckBox::toggled, this, &FigureForm::changed);
}

void FigureForm::alignNames(QFormLayout& form) {
  for (int row = 0; row < form.rowCount(); ++row) {
    const QLayoutItem* name = form.itemAt(row, QFormLayout::LabelRole);
    if (name == nullptr || name->widget() == nullptr) continue;
    name->widget()->setMinimumWidth(kNameEms * name->widget()->fontMetrics().averageCharWidth());
  }
}

void FigureForm::setOffer(const FigureOffer& offer) {
  m_offer = offer;
  m_form->setRowVisible(m_palette, offer.palette);
  m_form->setRowVisible(m_legend, offer.legend);
  m_form->setRowVisible(m_smooth, offer.smooth);
  m_form->setRowVisible(m_trainLength, offer.trainLength);
  m_form->setRowVisible(m_letters, offer.letters);
  m_form->setRowVisible(m_notes, offer.notes);
  while (m_form->rowCount() > m_fixedRows) m_form->removeRow(m_fixedRows);
  m_names.clear();
  m_bars.clear();
  m_x = m_y = {};
  for (const FigureOffer::Name& name : offer.names) {
    auto* field = new QLineEdit(name.written);
    const QString of = QString::fromStdString(name.of);
    field->setPlaceholderText(of);
    field->setToolTip(tr("What the figure calls %1; *F* is an italic F").arg(of));
    field->setAccessibleName(tr("Name of %1").arg(of));
    m_form->addRow(m_names.empty() ? tr("&Names") : QString(), field);
    connect(field, &QLineEdit::textChanged, this, &FigureForm::changed);
    m_names.push_back(field);
  }
  for (const Quantity quantity : offer.colourBars) {
    const QString name = plainName(quantity);
    m_bars.push_back(addEnds(tr("%1 from").arg(name), tr("Ends of the colour bar of %1").arg(name)));
  }
  if (offer.axes) {
    m_x = addEnds(tr("Across from"), tr("Ends of the horizontal axis"));
    m_y = addEnds(tr("Up from"), tr("Ends of the vertical axis"));
  }
  alignNames(*m_form);
}

FigureForm::Ends FigureForm::addEnds(const QString& name, const QString& tip) {
  auto* row = new QHBoxLayout;
  Ends ends{new QLineEdit, new QLineEdit};
  row->addWidget(ends.lower);
  row->addWidget(new QLabel(tr("to")));
  row->addWidget(ends.upper);
  for (QLineEdit* field : {ends.lower, ends.upper}) {
    field->setPlaceholderText(tr("automatic"));
    field->setToolTip(tip);
    connect(field, &QLineEdit::textChanged, this, &FigureForm::changed);
  }
  ends.lower->setAccessibleName(tr("%1: lower").arg(tip));
  ends.upper->setAccessibleName(tr("%1: upper").arg(tip));
  m_form->addRow(name, row);
  return ends;
}

std::string FigureForm::title() const { return m_title->text().trimmed().toStdString(); }

std::vector<std::pair<std::string, std::string>> FigureForm::labels() const {
  std::vector<std::pair<std::string, std::string>> labels;
  for (std::size_t index = 0; index < m_names.size(); ++index) {
    const std::string text = m_names[index]->text().trimmed().toStdString();
    if (!text.empty() && text != m_offer.names[index].of) labels.emplace_back(m_offer.names[index].of, text);
  }
  return labels;
}

figure::LegendPlace FigureForm::legend() const {
  return m_offer.legend ? static_cast<figure::LegendPlace>(m_legend->currentData().toInt())
                        : figure::LegendPlace::automatic;
}

figure::PanelLetters FigureForm::letters() const {
  return m_offer.letters && !m_letters->isChecked() ? figure::PanelLetters::none : figure::PanelLetters::whereSeveral;
}

bool FigureForm::plain() const { return m_offer.notes && !m_notes->isChecked(); }

const figure::ColourMap* FigureForm::colourMap() const {
  const int index = m_palette->currentIndex() - 1;
  return m_offer.palette && index >= 0 ? figure::namedColourMaps()[index_of(index)].map : nullptr;
}

std::optional<std::int64_t> FigureForm::smooth() const {
  return m_offer.smooth && m_smooth->value() >= 0 ? std::optional<std::int64_t>(m_smooth->value()) : std::nullopt;
}

std::optional<std::int64_t> FigureForm::trainLength() const {
  return m_offer.trainLength && m_trainLength->value() > 0 ? std::optional<std::int64_t>(m_trainLength->value())
                                                           : std::nullopt;
}

std::vector<figure::ColourLimits> FigureForm::colourLimits() const {
  std::vector<figure::ColourLimits> limits;
  for (std::size_t index = 0; index < m_bars.size(); ++index) {
    const Quantity quantity = m_offer.colourBars[index];
    const figure::ColourLimits one{quantity, numberOf(*m_bars[index].lower, plainName(quantity)),
                                   numberOf(*m_bars[index].upper, plainName(quantity))};
    if (one.lower || one.upper) limits.push_back(one);
  }
  return limits;
}

std::optional<figure::AxisLimits> FigureForm::axisLimits(const Ends& ends, const QString& name) {
  if (ends.lower == nullptr) return std::nullopt;
  const auto lower = numberOf(*ends.lower, name);
  const auto upper = numberOf(*ends.upper, name);
  if (!lower && !upper) return std::nullopt;
  if (!lower || !upper) throw UsageError(tr("%1: write both ends of the axis, or neither").arg(name).toStdString());
  return figure::AxisLimits{*lower, *upper};
}

std::optional<figure::AxisLimits> FigureForm::xLimits() const { return axisLimits(m_x, tr("Across")); }

std::optional<figure::AxisLimits> FigureForm::yLimits() const { return axisLimits(m_y, tr("Up")); }

}  // namespace foxscope::gui
