#include "app/gui/window/figures/export_dialog.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <span>

#include <QApplication>
#include <QBuffer>
#include <QClipboard>
#include <QFileDialog>
#include <QFileInfo>
#include <QFormLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QLocale>
#include <QPushButton>
#include <QScreen>
#include <QScrollArea>
#include <QVBoxLayout>
#include <fmt/format.h>

#include "app/figure/figure_length.h"
#include "app/figure/page/page.h"
#include "app/gui/curves/curves_view.h"
#include "app/gui/document/document.h"
#include "app/gui/evaluations/evaluations_view.h"
#include "app/gui/maps/maps_view.h"
#include "app/gui/views/elided_combo.h"
#include "app/gui/views/theme.h"
#include "app/gui/window/figures/figure_form.h"
#include "app/gui/window/figures/panel_figures.h"
#include "app/gui/window/map_command.h"
#include "app/gui/window/message_bar.h"
#include "app/gui/window/settings.h"
#include "backend/base/atomic_file.h"
#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/file/map_file.h"
#include "backend/map/distance_axis.h"

namespace foxscope::gui {
namespace {

struct Ending {
  ExportDialog::Kind kind;
  const char* name;
  const char* ending;
};
constexpr int kFormWidth = 360;              ///< pixels
constexpr const char* kCopied = "foxscope";  ///< what a command that is copied draws, without its ending
constexpr QSize kDialog(1080, 700);
constexpr int kAround = 40;           ///< pixels of the window that stay to be seen
constexpr double kFontByWidth = 3.5;  ///< points; shown as words, as nobody wants letters that small

constexpr std::array kPictures{Ending{ExportDialog::Kind::pdf, "PDF", "pdf"},
                               Ending{ExportDialog::Kind::svg, "SVG", "svg"},
                               Ending{ExportDialog::Kind::png, "PNG", "png"}};
constexpr std::array kMapData{Ending{ExportDialog::Kind::hdf5, "HDF5 (data)", "h5"},
                              Ending{ExportDialog::Kind::npy, "NPY (data)", "npy"},
                              Ending{ExportDialog::Kind::csv, "CSV (data)", "csv"}};

void writeFile(const QString& path, const std::string& bytes) {
  AtomicFile file(path.toStdString(), true);
  file.write(bytes.data(), bytes.size());
  file.commit();
}

bool isData(ExportDialog::Kind kind) {
  return kind == ExportDialog::Kind::hdf5 || kind == ExportDialog::Kind::npy || kind == ExportDialog::Kind::csv;
}

QString endingOf(ExportDialog::Kind kind) {
  for (const auto& list : {std::span<const Ending>(kPictures), std::span<const Ending>(kMapData)}) {
    for (const Ending& entry : list) {
      if (entry.kind == kind) return QString::fromLatin1(entry.ending);
    }
  }
  return {};
}

std::string pngOf(const QImage& picture) {
  QByteArray bytes;
  QBuffer buffer(&bytes);
  buffer.open(QIODevice::WriteOnly);
  if (!picture.save(&buffer, "PNG")) throw Error("drawing: Qt has no PNG writer: install Debian's libqt6gui6");
  return bytes.toStdString();
}

/// A page as large as the picture on the screen, with its pixels as they are.
std::string pdfOf(const QImage& picture) {
  constexpr double kScreenDpi = 96;
  figure::FigureFormat format;
  format.kind = figure::FigureFormat::Kind::pdf;
  format.dpi = static_cast<int>(std::lround(kScreenDpi * picture.devicePixelRatio()));
  const QSizeF size = picture.deviceIndependentSize() * (figure::kPointsPerInch / kScreenDpi);
  return figure::paintPage(format, size, {"the Foxscope window", "", {}, ""},
                           [&](figure::Canvas& canvas) { canvas.image(QRectF(QPointF(), size), picture); });
}

/// The window without its messages, which are of the moment.
QImage pictureOf(QWidget& window) {
  auto* messages = window.findChild<MessageBar*>();
  const bool shown = messages != nullptr && messages->isVisible();
  if (shown) messages->setVisible(false);
  QImage picture = window.grab().toImage().convertToFormat(QImage::Format_RGB32);
  if (shown) messages->setVisible(true);
  return picture;
}

std::string mapName(const MapRequest& request) {
  const TraceInfo& info = request.head.trace->info();
  return QStringLiteral("%1_L%2_H%3_%4")
      .arg(QString::fromStdString(info.name))
      .arg(request.head.layer, 2, 10, QChar('0'))
      .arg(request.head.head, 2, 10, QChar('0'))
      .arg(to_string(request.quantity))
      .toStdString();
}

FigureOffer offerOf(const figure::RunFigure& figure) {
  const figure::FigureKind& kind = figure.row();
  FigureOffer offer;
  offer.palette = kind.takes("colours");
  offer.legend = kind.takes("legend-at");
  offer.axes = kind.takes("x-limits");
  offer.trainLength = kind.takes("train-length");
  offer.smooth = kind.takes("smooth");
  offer.letters = kind.traits.letters;
  offer.colourBars = figure.quantities();
  if (!kind.takes("models")) return offer;
  for (const figure::FigureRun& run : figure.runs) {
    const std::string name = figure.nameOf(run);
    offer.names.push_back({name, run.name == name ? QString() : QString::fromStdString(run.name)});
  }
  return offer;
}

FigureOffer offerOf(const ShownMap& shown) {
  FigureOffer offer;
  offer.palette = !shown.picture->colours.hasSigns;
  offer.notes = true;
  offer.colourBars = {shown.picture->computed.quantity};
  return offer;
}

/// A page of several panels offers a title and letters: the other choices are those of each panel.
FigureOffer offerOf(const ShownPanels& panels) {
  FigureOffer offer;
  offer.letters = !areOne(panels);
  if (offer.letters) return offer;
  const figure::FigureKind& kind = *figure::findFigureKind(panels[0][0].spec.kind);
  offer.legend = kind.takes("legend-at");
  offer.axes = kind.takes("x-limits");
  offer.letters = kind.traits.letters;
  return offer;
}

FigureOffer offerOf(const figure::CurveFigure& figure) {
  FigureOffer offer;
  offer.legend = offer.axes = true;
  std::vector<const figure::CurvePlot*> plots{&figure};
  for (const figure::CurvePlot& plot : figure.below) plots.push_back(&plot);
  for (const figure::CurvePlot* plot : plots) {
    for (const figure::Curve& curve : plot->curves) {
      const auto known = std::find_if(offer.names.begin(), offer.names.end(),
                                      [&](const FigureOffer::Name& name) { return name.of == curve.name; });
      if (!curve.name.empty() && known == offer.names.end()) offer.names.push_back({curve.name, {}});
    }
  }
  return offer;
}

}  // namespace

ExportDialog::ExportDialog(Document& document, const MapsView& maps, const CurvesView& curves,
                           const EvaluationsView& evaluations, Settings& settings, QWidget& window)
    : QDialog(&window),
      m_document(document),
      m_settings(settings),
      m_window(window),
      m_map(maps.shownMap()),
      m_curves(curves.figureOfCurrentTab()),
      m_curveData(curves.dataOfCurrentTab()),
      m_panels(evaluations.shownPanels()),
      m_figures(paperFigures(document.runs())),
      m_evaluated(std::make_shared<figure::EvaluatedRuns>()) {
  setWindowTitle(tr("Export"));
  makeForm();
  const QSize around(kAround, kAround);
  resize(kDialog.boundedTo(window.size() - around).boundedTo(window.screen()->availableSize() - 2 * around));
  followSource();
}

void ExportDialog::makeForm() {
  auto* whole = new QVBoxLayout(this);
  auto* parts = new QHBoxLayout;
  auto* fields = new QWidget;
  auto* column = new QVBoxLayout(fields);
  auto* form = new QFormLayout;
  form->setFieldGrowthPolicy(QFormLayout::AllNonFixedFieldsGrow);
  m_source = new ElidedCombo;
  if (m_map) m_source->addItem(tr("map of the active pane"), static_cast<int>(Source::map));
  if (m_curves) m_source->addItem(tr("curves as shown"), static_cast<int>(Source::curves));
  if (!m_panels.empty()) m_source->addItem(tr("atlas as shown"), static_cast<int>(Source::panels));
  m_source->addItem(tr("whole window"), static_cast<int>(Source::window));
  if (!m_figures.empty()) m_source->insertSeparator(m_source->count());
  for (std::size_t index = 0; index < m_figures.size(); ++index) {
    m_source->addItem(tr("figure: %1").arg(m_figures[index].name),
                      static_cast<int>(Source::figures) + static_cast<int>(index));
  }
  // Names are longer than the form is wide: the list is as wide as it has to be.
  m_source->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  m_source->setMinimumContentsLength(20);
  form->addRow(tr("&What"), m_source);
  m_kind = new QComboBox;
  form->addRow(tr("&File"), m_kind);
  makeSizes(*form);
  FigureForm::alignNames(*form);
  column->addLayout(form);
  m_form = new FigureForm;
  column->addWidget(m_form);
  column->addStretch(1);
  m_fields = new QScrollArea;
  m_fields->setWidget(fields);
  m_fields->setWidgetResizable(true);
  m_fields->setFrameShape(QFrame::NoFrame);
  m_fields->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  parts->addWidget(m_fields);
  m_preview = new FigurePreview(m_document.runs().jobs());
  parts->addWidget(m_preview, 1);
  whole->addLayout(parts, 1);
  makeButtons(*whole);
  connect(m_source, &QComboBox::currentIndexChanged, this, &ExportDialog::followSource);
  connect(m_kind, &QComboBox::currentIndexChanged, this, &ExportDialog::followKind);
  connect(m_form, &FigureForm::changed, this, &ExportDialog::followForm);
}

void ExportDialog::makeSizes(QFormLayout& form) {
  const Settings::ExportSizes sizes = m_settings.exportSizes();
  m_preset = new QComboBox;
  m_width = new QDoubleSpinBox;
  for (const figure::Venue& venue : figure::venues()) {
    if (venue.title == nullptr) continue;
    const double width = figure::parseLength("--width", venue.length);
    m_preset->addItem(tr(venue.title), QString::number(width, 'f', m_width->decimals()).toDouble());
  }
  m_preset->addItem(tr("own width"));
  form.addRow(tr("&Size for"), m_preset);
  m_width->setRange(20, 1000);
  m_width->setSuffix(tr(" mm"));
  m_width->setValue(sizes.widthMm);
  const int preset = m_preset->findData(m_width->value());
  m_preset->setCurrentIndex(preset < 0 ? m_preset->count() - 1 : preset);
  form.addRow(tr("Wi&dth"), m_width);
  m_font = new QDoubleSpinBox;
  m_font->setRange(kFontByWidth, 48);
  m_font->setSingleStep(0.5);
  m_font->setSpecialValueText(tr("by the width"));
  m_font->setSuffix(tr(" pt"));
  m_font->setValue(sizes.fontPt.value_or(kFontByWidth));
  form.addRow(tr("F&ont"), m_font);
  m_dpi = new QSpinBox;
  m_dpi->setRange(36, 2400);
  m_dpi->setValue(sizes.dpi);
  m_dpi->setSuffix(tr(" dots per inch"));
  form.addRow(tr("&Resolution"), m_dpi);
  m_everyEntry = new QCheckBox(tr("every entry, not pooled to the screen"));
  form.addRow(QString(), m_everyEntry);
  m_svgText = new QCheckBox(tr("text stays text, to be edited"));
  m_svgText->setToolTip(tr("Instead of outlines; the font is not in the file"));
  form.addRow(QString(), m_svgText);
  connect(m_everyEntry, &QCheckBox::toggled, this, &ExportDialog::followForm);
  connect(m_svgText, &QCheckBox::toggled, this, &ExportDialog::followForm);
  connect(m_dpi, &QSpinBox::valueChanged, this, &ExportDialog::followForm);
  connect(m_font, &QDoubleSpinBox::valueChanged, this, &ExportDialog::followForm);
  connect(m_preset, &QComboBox::currentIndexChanged, this, [this] {
    if (m_preset->currentData().isValid()) m_width->setValue(m_preset->currentData().toDouble());
  });
  connect(m_width, &QDoubleSpinBox::valueChanged, this, [this](double width) {
    if (m_preset->currentData().isValid() && width != m_preset->currentData().toDouble()) {
      m_preset->setCurrentIndex(m_preset->count() - 1);
    }
    followForm();
  });
}

void ExportDialog::makeButtons(QVBoxLayout& layout) {
  m_note = new QLabel;
  m_note->setWordWrap(true);
  m_note->setTextFormat(Qt::PlainText);
  m_note->setForegroundRole(QPalette::WindowText);
  layout.addWidget(m_note);
  auto* row = new QHBoxLayout;
  m_copy = new QPushButton(tr("Copy the Command"));
  m_spec = new QPushButton(tr("Write the Spec…"));
  m_spec->setToolTip(tr("Save what is chosen as JSON, to be drawn by: foxscope figure spec SPEC.json RUN.h5 -o FILE"));
  auto* cancel = new QPushButton(tr("Cancel"));
  auto* save = new QPushButton(tr("Save As…"));
  save->setDefault(true);
  row->addWidget(m_copy);
  row->addWidget(m_spec);
  row->addStretch(1);
  row->addWidget(cancel);
  row->addWidget(save);
  layout.addLayout(row);
  connect(m_copy, &QPushButton::clicked, this, &ExportDialog::copyCommand);
  connect(m_spec, &QPushButton::clicked, this, &ExportDialog::chooseSpecPath);
  connect(save, &QPushButton::clicked, this, &ExportDialog::choosePath);
  connect(cancel, &QPushButton::clicked, this, &QDialog::reject);
}

ExportDialog::Source ExportDialog::chosenSource() const {
  return static_cast<Source>(std::min(m_source->currentData().toInt(), static_cast<int>(Source::figures)));
}

const PaperFigure* ExportDialog::chosenFigure() const {
  const int index = m_source->currentData().toInt() - static_cast<int>(Source::figures);
  return index < 0 ? nullptr : &m_figures[index_of(index)];
}
ExportDialog::Kind ExportDialog::chosenKind() const { return static_cast<Kind>(m_kind->currentData().toInt()); }

void ExportDialog::followSource() {
  {
    const QSignalBlocker blocker(m_kind);
    m_kind->clear();
    const auto add = [&](const Ending& ending) { m_kind->addItem(tr(ending.name), static_cast<int>(ending.kind)); };
    if (chosenSource() == Source::window) {
      // The window is shown as pixels; outlines of its letters do not exist.
      for (const Ending& ending : kPictures) {
        if (ending.kind != Kind::svg) add(ending);
      }
      m_kind->setCurrentIndex(m_kind->findData(static_cast<int>(Kind::png)));
    } else {
      for (const Ending& ending : kPictures) add(ending);
      if (chosenSource() == Source::map) {
        for (const Ending& ending : kMapData) add(ending);
      } else if (chosenSource() == Source::curves) {
        add(kMapData.back());
      }
    }
  }
  FigureOffer offer;
  if (const PaperFigure* chosen = chosenFigure()) {
    offer = offerOf(chosen->figure);
  } else if (chosenSource() == Source::map) {
    offer = offerOf(*m_map);
  } else if (chosenSource() == Source::curves) {
    offer = offerOf(*m_curves);
  } else if (chosenSource() == Source::panels) {
    offer = offerOf(m_panels);
  }
  m_form->setOffer(offer);
  followKind();
  // As wide as its fields need, as far as the preview has room beside them.
  const int bar = QWidget::style()->pixelMetric(QStyle::PM_ScrollBarExtent);
  m_fields->setFixedWidth(std::max(kFormWidth, m_fields->widget()->minimumSizeHint().width() + bar));
}

void ExportDialog::followKind() {
  const bool numbers = isData(chosenKind());
  const bool drawn = !numbers && chosenSource() != Source::window;
  for (QWidget* widget : std::initializer_list<QWidget*>{m_preset, m_width, m_font, m_dpi}) widget->setEnabled(drawn);
  m_form->setVisible(drawn);
  m_everyEntry->setVisible(numbers && chosenSource() == Source::map);
  m_svgText->setVisible(drawn && chosenKind() == Kind::svg);
  m_spec->setEnabled(drawn && (chosenFigure() != nullptr || chosenSource() == Source::panels));
  followForm();
}

QString ExportDialog::dataSize() const {
  if (chosenSource() == Source::curves) {
    return tr("%1 lines, one for each position").arg(m_curveData.count(QLatin1Char('\n')));
  }
  const MapRequest& request = m_map->picture->computed;
  const std::int64_t rows = m_everyEntry->isChecked() ? request.rows.size() : request.pixel_rows;
  const std::int64_t columns = m_everyEntry->isChecked() ? request.columns.size() : request.pixel_columns;
  constexpr double kBytes = 4;
  const double bytes = kBytes * static_cast<double>(rows) * static_cast<double>(columns);
  return tr("%1 x %2 entries, %3")
      .arg(rows)
      .arg(columns)
      .arg(QLocale().formattedDataSize(static_cast<qint64>(bytes), 1, QLocale::DataSizeSIFormat));
}

void ExportDialog::followForm() {
  const QString note = commandNote();
  m_copy->setEnabled(note.isEmpty());
  m_copy->setToolTip(note.isEmpty() ? tr("Put the command that draws this on the clipboard") : note);
  m_note->setText(note);
  m_note->setVisible(!note.isEmpty());
  if (isData(chosenKind())) return m_preview->setWords(dataSize());
  if (chosenSource() == Source::window) {
    if (m_windowPicture.isNull()) m_windowPicture = pictureOf(m_window);
    const QSize size = m_windowPicture.size();
    return m_preview->setPicture(m_windowPicture, tr("%1 × %2 pixels").arg(size.width()).arg(size.height()));
  }
  try {
    m_preview->setPage(page({}), format());
  } catch (const std::exception& error) {
    m_preview->setWords(QString::fromUtf8(error.what()));
  }
}

figure::FigureFormat ExportDialog::format() const {
  figure::FigureFormat format;
  format.kind = chosenKind() == Kind::pdf   ? figure::FigureFormat::Kind::pdf
                : chosenKind() == Kind::svg ? figure::FigureFormat::Kind::svg
                                            : figure::FigureFormat::Kind::png;
  format.widthMm = m_width->value();
  format.dpi = m_dpi->value();
  if (m_font->value() > kFontByWidth) format.fontSizePt = m_font->value();
  if (format.kind == figure::FigureFormat::Kind::svg && m_svgText->isChecked()) {
    format.svgText = figure::FigureFormat::SvgText::text;
  }
  return format;
}

ShownPanels ExportDialog::chosenPanels() const {
  ShownPanels panels = m_panels;
  if (!areOne(panels)) return panels;
  figure::FigureSpec& spec = panels[0][0].spec;
  const auto setLimits = [&](const char* option, const std::optional<figure::AxisLimits>& limits) {
    if (!limits) return;
    std::erase_if(spec.options, [&](const auto& one) { return one.first == option; });
    spec.set(option, fmt::format("{}:{}", limits->lower, limits->upper));
  };
  setLimits("x-limits", m_form->xLimits());
  setLimits("y-limits", m_form->yLimits());
  return panels;
}

DrawPage ExportDialog::panelsPage(const QString& output) const {
  const ShownPanels panels = chosenPanels();
  figure::FigureStyle chosen = style();
  if (!output.isEmpty() && areOne(panels)) {
    chosen.command = panelCommand(panels[0][0], chosen, output.toStdString(), figure::Folders::leftOut);
  }
  return [panels, chosen](const figure::FigureFormat& format, const Job& job) -> std::optional<std::string> {
    figure::FigureStyle style = chosen;
    style.format = format;
    auto drawn = drawPanels(panels, style, job);
    return drawn ? std::optional(std::move(drawn->file)) : std::nullopt;
  };
}

figure::FigureStyle ExportDialog::style() const {
  figure::FigureStyle style;
  style.format = format();
  style.title = m_form->title();
  style.letters = m_form->letters();
  style.legend = m_form->legend();
  style.labels = m_form->labels();
  return style;
}

figure::RunFigure ExportDialog::runFigure() const {
  figure::RunFigure figure = chosenFigure()->figure;
  const auto setLimits = [&](const char* option, const std::optional<figure::AxisLimits>& limits) {
    if (limits) figure.set(option, fmt::format("{}:{}", limits->lower, limits->upper));
  };
  const auto setCount = [&](const char* option, const std::optional<std::int64_t>& count) {
    if (count) figure.set(option, std::to_string(*count));
  };
  for (const figure::NamedColourMap& map : figure::namedColourMaps()) {
    if (map.map == m_form->colourMap()) figure.set("colours", map.name);
  }
  const auto end = [](const std::optional<double>& value) { return value ? fmt::format("{}", *value) : ""; };
  std::vector<std::string> bars;
  for (const figure::ColourLimits& one : m_form->colourLimits()) {
    bars.push_back(fmt::format("{}={}:{}", to_string(one.quantity), end(one.lower), end(one.upper)));
  }
  if (!bars.empty()) figure.set("limits", std::move(bars));
  setCount("smooth", m_form->smooth());
  setCount("train-length", m_form->trainLength());
  setLimits("x-limits", m_form->xLimits());
  setLimits("y-limits", m_form->yLimits());
  return figure;
}

DrawPage ExportDialog::page(const QString& output) const {
  if (chosenSource() == Source::map) return mapPage(output);
  if (chosenSource() == Source::curves) return curvesPage();
  if (chosenSource() == Source::panels) return panelsPage(output);
  const figure::RunFigure figure = runFigure();
  figure::FigureStyle chosen = style();
  if (!output.isEmpty() && commandObstacle(figure).empty()) {
    chosen.command = commandOf(figure, chosen, output.toStdString(), figure::Folders::leftOut);
  }
  return [figure, chosen, evaluated = m_evaluated](const figure::FigureFormat& format,
                                                   const Job& job) -> std::optional<std::string> {
    figure::FigureStyle style = chosen;
    style.format = format;
    auto drawn = drawRunFigure(figure, style, *evaluated, job);
    return drawn ? std::optional(std::move(drawn->file)) : std::nullopt;
  };
}

figure::ColourChoice ExportDialog::chosenColours(const figure::ColourChoice& shown) const {
  figure::ColourChoice colours = shown;
  if (m_form->colourMap() != nullptr) colours.map = m_form->colourMap();
  for (const figure::ColourLimits& limits : m_form->colourLimits()) {
    if (limits.lower) colours.lower = limits.lower;
    if (limits.upper) colours.upper = limits.upper;
  }
  return colours;
}

figure::MapFigure ExportDialog::mapFigure() const {
  figure::MapFigure figure = m_map->figure();
  figure.colours = chosenColours(figure.colours);
  figure.plain = m_form->plain();
  // By itself a plain map has no title.
  if (!m_form->title().empty() || figure.plain) figure.title = m_form->title();
  return figure;
}

DrawPage ExportDialog::mapPage(const QString& output) const {
  const figure::MapFigure figure = mapFigure();
  const RunCommands runs = runCommands(output);
  std::string origin;
  if (!output.isEmpty() && mapCommandObstacle(*m_map, runs).isEmpty() && runs.before().isEmpty()) {
    origin = mapCommand(figure, format(), runs, output.toStdString(), figure::Folders::leftOut);
  }
  return [shown = *m_map, chosen = figure, origin](const figure::FigureFormat& format,
                                                   const Job& job) -> std::optional<std::string> {
    // A print has more dots than the screen: the map is computed for them.
    const figure::PixelRoom room = figure::mapRoom(chosen.request, format);
    auto drawn = shown.figure({room.rows, room.columns}, job);
    if (!drawn) return std::nullopt;
    drawn->colours = chosen.colours;
    drawn->title = chosen.title;
    drawn->plain = chosen.plain;
    drawn->command = origin;
    return figure::drawMap(*drawn, format);
  };
}

figure::CurveFigure ExportDialog::chosenCurves() const {
  figure::CurveFigure figure = *m_curves;
  const auto labels = m_form->labels();
  const auto choose = [&](figure::CurvePlot& plot) {
    plot.legend = m_form->legend();
    if (const auto limits = m_form->xLimits()) plot.xLimits = limits;
    for (figure::Curve& curve : plot.curves) {
      const auto label =
          std::find_if(labels.begin(), labels.end(), [&](const auto& one) { return one.first == curve.name; });
      if (label != labels.end()) curve.name = label->second;
    }
  };
  choose(figure);
  for (figure::CurvePlot& plot : figure.below) choose(plot);
  if (const auto limits = m_form->yLimits()) figure.yLimits = limits;
  if (!m_form->title().empty()) figure.title = m_form->title();
  return figure;
}

DrawPage ExportDialog::curvesPage() const {
  return [figure = chosenCurves()](const figure::FigureFormat& format, const Job&) {
    return std::optional(figure::drawCurves(figure, format));
  };
}

RunCommands ExportDialog::runCommands(const QString& output) const {
  RunCommands::Traces traces;
  if (chosenFigure() != nullptr) {
    for (const figure::FigureRun& run : chosenFigure()->figure.runs) traces.push_back(run.trace);
  } else if (chosenSource() == Source::map) {
    const MapRequest& request = m_map->picture->computed;
    traces.push_back(request.head.trace);
    if (request.minus) traces.push_back(request.minus->trace);
  }
  return {m_document.runs(), m_document.modelRuns().text(), traces, output};
}

figure::RunFigure ExportDialog::inFiles(figure::RunFigure figure, const RunCommands& runs) {
  for (figure::FigureRun& run : figure.runs) run.file = runs.fileOf(*run.trace).toStdString();
  return figure;
}

QString ExportDialog::commandNote() const {
  if (isData(chosenKind())) return {};
  switch (chosenSource()) {
    case Source::map:
      return mapCommandObstacle(*m_map, runCommands(kCopied));
    case Source::curves:
      return tr("No command draws curves as they are on the screen; the figures of the list have one.");
    case Source::panels:
      return areOne(m_panels) ? QString()
                              : tr("No command draws several figures on one page: a spec does, which the button "
                                   "below writes.");
    case Source::window:
      return tr("No command draws the window; the figures of the list have one.");
    case Source::figures:
      break;
  }
  const RunCommands runs = runCommands(kCopied);
  if (!runs.obstacle().isEmpty()) return runs.obstacle();
  const QString why = QString::fromStdString(commandObstacle(inFiles(chosenFigure()->figure, runs)));
  return why.isEmpty() ? why : tr("No command: %1.").arg(why);
}

QString ExportDialog::command(const QString& output) const {
  if (!commandNote().isEmpty()) return {};
  const std::string file = output.toStdString();
  const RunCommands runs = runCommands(output);
  if (chosenFigure() != nullptr) {
    const figure::RunFigure figure = inFiles(runFigure(), runs);
    return runs.before() + QString::fromStdString(commandOf(figure, style(), file, figure::Folders::kept));
  }
  if (chosenSource() == Source::panels) {
    return QString::fromStdString(panelCommand(chosenPanels()[0][0], style(), file, figure::Folders::kept));
  }
  if (chosenSource() != Source::map) return {};
  return runs.before() + QString::fromStdString(mapCommand(mapFigure(), format(), runs, file, figure::Folders::kept));
}

void ExportDialog::copyCommand() {
  try {
    QApplication::clipboard()->setText(command(QString(kCopied) + '.' + endingOf(chosenKind())));
    m_note->setText(tr("The command is on the clipboard."));
  } catch (const std::exception& error) {
    m_note->setText(QString::fromUtf8(error.what()));
  }
  m_note->setVisible(true);
}

void ExportDialog::tellError(const QString& text) {
  emit m_document.files().messageRaised({Message::Kind::error, text});
}

void ExportDialog::choosePath() {
  const QString ending = endingOf(chosenKind());
  const QString path =
      QFileDialog::getSaveFileName(this, tr("Export"), m_settings.folder() + "/foxscope." + ending, "*." + ending);
  if (path.isEmpty()) return;
  m_settings.setFolder(QFileInfo(path).absolutePath());
  write(path);
  accept();
}

void ExportDialog::chooseSpecPath() {
  const QString path = QFileDialog::getSaveFileName(this, tr("Write the spec"), m_settings.folder() + "/figure.json",
                                                    tr("Specs of figures (*.json)"));
  if (path.isEmpty()) return;
  m_settings.setFolder(QFileInfo(path).absolutePath());
  writeSpec(path);
}

void ExportDialog::remember() {
  const figure::FigureFormat chosen = format();
  m_settings.setExportSizes({chosen.widthMm, chosen.fontSizePt, chosen.dpi});
}

void ExportDialog::write(const QString& path) {
  // A file is what its name says.
  const QString ending = QFileInfo(path).suffix().toLower();
  for (int index = 0; index < m_kind->count(); ++index) {
    if (ending == endingOf(static_cast<Kind>(m_kind->itemData(index).toInt()))) m_kind->setCurrentIndex(index);
  }
  if (ending != endingOf(chosenKind())) {
    return tellError(tr("%1: %2 cannot be written as “.%3”: end the name in .%4")
                         .arg(path, m_source->currentText(), ending, endingOf(chosenKind())));
  }
  remember();
  if (chosenSource() == Source::window) return writeWindow(path);
  if (!isData(chosenKind())) return writePage(path);
  return chosenSource() == Source::map ? writeMapData(path) : writeCurveData(path);
}

void ExportDialog::writePage(const QString& path) {
  DrawPage draw;
  try {
    draw = page(path);
  } catch (const std::exception& error) {
    return tellError(QString::fromUtf8(error.what()));
  }
  m_document.files().writeFile(path, [draw, format = format(), path](const Job& job) -> std::optional<bool> {
    const auto file = draw(format, job);
    if (!file) return std::nullopt;
    writeFile(path, *file);
    return true;
  });
}

void ExportDialog::writeSpec(const QString& path) {
  try {
    const std::string text =
        chosenFigure() != nullptr ? specOf(runFigure(), style()).text() : panelsSpec(chosenPanels(), style(), path);
    m_document.files().writeFile(path, [text, path](const Job&) {
      writeFile(path, text);
      return std::optional(true);
    });
  } catch (const std::exception& error) {
    tellError(QString::fromUtf8(error.what()));
  }
}

void ExportDialog::writeMapData(const QString& path) {
  MapRequest request = m_map->picture->computed;
  const bool all = m_everyEntry->isChecked();
  if (all) {
    request.pixel_rows = request.rows.size();
    request.pixel_columns = request.columns.size();
  }
  // A file names each bin of distances once.
  if (request.by_distance()) {
    request.set_distances(all ? single_distances(request.columns) : distinct(request.distances));
  }
  request.skip_tolerance = 0;
  m_document.files().writeFile(path, [request, kind = chosenKind(), path](const Job& job) -> std::optional<bool> {
    const std::filesystem::path file = path.toStdString();
    bool whole = false;
    if (kind == Kind::npy) {
      whole = write_map_npy(file, request, Overwrite::force, job);
    } else if (kind == Kind::csv) {
      whole = write_map_csv(file, request, Overwrite::force, job);
    } else {
      const NamedMap map{mapName(request), request};
      whole = write_maps_hdf5(file, std::span(&map, 1), {"foxscope", ""}, Overwrite::force, job);
    }
    return whole ? std::optional(true) : std::nullopt;
  });
}

void ExportDialog::writeCurveData(const QString& path) {
  m_document.files().writeFile(path, [content = m_curveData.toStdString(), path](const Job&) {
    writeFile(path, content);
    return std::optional(true);
  });
}

void ExportDialog::writeWindow(const QString& path) {
  m_document.files().writeFile(path, [picture = m_windowPicture, pdf = chosenKind() == Kind::pdf, path](const Job&) {
    writeFile(path, pdf ? pdfOf(picture) : pngOf(picture));
    return std::optional(true);
  });
}

}  // namespace foxscope::gui
