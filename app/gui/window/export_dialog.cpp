#include "app/gui/window/export_dialog.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <span>

#include <QBuffer>
#include <QDialogButtonBox>
#include <QFileDialog>
#include <QFileInfo>
#include <QFormLayout>
#include <QLabel>
#include <QLocale>
#include <QPushButton>

#include "app/figure/page.h"
#include "app/gui/curves/curves_view.h"
#include "app/gui/maps/maps_view.h"
#include "backend/base/atomic_file.h"
#include "backend/base/error.h"
#include "backend/file/run_file.h"

namespace foxscope::gui {
namespace {

struct Ending {
  ExportDialog::Kind kind;
  const char* name;
  const char* ending;
};
constexpr double kFontByWidth = 3.5;  ///< points; shown as words, as nobody wants letters that small

constexpr std::array kPictures{Ending{ExportDialog::Kind::pdf, "PDF", "pdf"},
                               Ending{ExportDialog::Kind::svg, "SVG", "svg"},
                               Ending{ExportDialog::Kind::png, "PNG", "png"}};
constexpr std::array kMapData{Ending{ExportDialog::Kind::hdf5, "HDF5 (data)", "h5"},
                              Ending{ExportDialog::Kind::npy, "NPY (data)", "npy"},
                              Ending{ExportDialog::Kind::csv, "CSV (data)", "csv"}};

struct Width {
  const char* name;
  double mm;
};
constexpr std::array kWidths{Width{"NeurIPS, ICLR: text width", 139.7}, Width{"NeurIPS, ICLR: half", 67.31},
                             Width{"ICML: column", 82.55}, Width{"ICML: page", 171.45}};

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
  return figure::paintPage(format, size, {"the Foxscope window", "", {}},
                           [&](figure::Canvas& canvas) { canvas.image(QRectF(QPointF(), size), picture); });
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

}  // namespace

ExportDialog::ExportDialog(Document& document, const MapsView& maps, const CurvesView& curves, QWidget& window)
    : QDialog(&window),
      m_document(document),
      m_window(window),
      m_map(maps.shownMap()),
      m_curves(curves.figureOfCurrentTab()),
      m_curveData(curves.dataOfCurrentTab()),
      m_figures(paperFigures(document)) {
  setWindowTitle(tr("Export"));
  makeForm();
  followSource();
}

void ExportDialog::makeForm() {
  auto* form = new QFormLayout(this);
  m_source = new QComboBox;
  if (m_map) m_source->addItem(tr("map of the active pane"), static_cast<int>(Source::map));
  if (m_curves) m_source->addItem(tr("curves as shown"), static_cast<int>(Source::curves));
  m_source->addItem(tr("whole window"), static_cast<int>(Source::window));
  if (!m_figures.empty()) m_source->insertSeparator(m_source->count());
  for (std::size_t index = 0; index < m_figures.size(); ++index) {
    m_source->addItem(tr("figure: %1").arg(m_figures[index].name),
                      static_cast<int>(Source::figures) + static_cast<int>(index));
  }
  form->addRow(tr("&What"), m_source);
  m_kind = new QComboBox;
  form->addRow(tr("&File"), m_kind);
  m_preset = new QComboBox;
  for (const Width& width : kWidths) m_preset->addItem(tr(width.name), width.mm);
  m_preset->addItem(tr("own width"));
  form->addRow(tr("&Size for"), m_preset);
  m_width = new QDoubleSpinBox;
  m_width->setRange(20, 1000);
  m_width->setSuffix(tr(" mm"));
  m_width->setValue(kWidths[0].mm);
  form->addRow(tr("Wi&dth"), m_width);
  m_font = new QDoubleSpinBox;
  m_font->setRange(kFontByWidth, 48);
  m_font->setSingleStep(0.5);
  m_font->setSpecialValueText(tr("by the width"));
  m_font->setSuffix(tr(" pt"));
  form->addRow(tr("F&ont"), m_font);
  m_dpi = new QSpinBox;
  m_dpi->setRange(36, 2400);
  m_dpi->setValue(300);
  m_dpi->setSuffix(tr(" dots per inch"));
  form->addRow(tr("&Resolution"), m_dpi);
  m_everyEntry = new QCheckBox(tr("every entry, not pooled to what the screen shows"));
  form->addRow(QString(), m_everyEntry);
  m_size = new QLabel;
  form->addRow(QString(), m_size);
  auto* buttons = new QDialogButtonBox(QDialogButtonBox::Save | QDialogButtonBox::Cancel);
  buttons->button(QDialogButtonBox::Save)->setText(tr("Save as…"));
  form->addRow(buttons);
  connect(buttons, &QDialogButtonBox::accepted, this, &ExportDialog::choosePath);
  connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
  connect(m_source, &QComboBox::currentIndexChanged, this, &ExportDialog::followSource);
  connect(m_kind, &QComboBox::currentIndexChanged, this, &ExportDialog::followKind);
  connect(m_everyEntry, &QCheckBox::toggled, this, &ExportDialog::followKind);
  connect(m_preset, &QComboBox::currentIndexChanged, this, [this] {
    if (m_preset->currentData().isValid()) m_width->setValue(m_preset->currentData().toDouble());
  });
  connect(m_width, &QDoubleSpinBox::valueChanged, this, [this](double width) {
    if (m_preset->currentData().isValid() && width != m_preset->currentData().toDouble()) {
      m_preset->setCurrentIndex(m_preset->count() - 1);
    }
  });
}

ExportDialog::Source ExportDialog::chosenSource() const {
  return static_cast<Source>(std::min(m_source->currentData().toInt(), static_cast<int>(Source::figures)));
}

const PaperFigure* ExportDialog::chosenFigure() const {
  const int index = m_source->currentData().toInt() - static_cast<int>(Source::figures);
  return index < 0 ? nullptr : &m_figures[static_cast<std::size_t>(index)];
}
ExportDialog::Kind ExportDialog::chosenKind() const { return static_cast<Kind>(m_kind->currentData().toInt()); }

void ExportDialog::followSource() {
  const QSignalBlocker blocker(m_kind);
  m_kind->clear();
  const auto add = [&](const Ending& ending) { m_kind->addItem(tr(ending.name), static_cast<int>(ending.kind)); };
  if (chosenSource() == Source::window) {
    // What the window shows is pixels; outlines of its letters do not exist.
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
  followKind();
}

void ExportDialog::followKind() {
  const bool numbers = isData(chosenKind());
  const bool drawn = !numbers && chosenSource() != Source::window;
  for (QWidget* widget : std::initializer_list<QWidget*>{m_preset, m_width, m_font, m_dpi}) widget->setEnabled(drawn);
  m_everyEntry->setEnabled(numbers && chosenSource() == Source::map);
  m_size->clear();
  if (!m_everyEntry->isEnabled() || !m_everyEntry->isChecked()) return;
  const MapRequest& request = m_map->picture->computed;
  constexpr double kBytes = 4;
  const double bytes = kBytes * static_cast<double>(request.rows.size()) * static_cast<double>(request.columns.size());
  m_size->setText(tr("%1 x %2 entries, %3")
                      .arg(request.rows.size())
                      .arg(request.columns.size())
                      .arg(QLocale().formattedDataSize(static_cast<qint64>(bytes), 1, QLocale::DataSizeSIFormat)));
}

figure::FigureFormat ExportDialog::format() const {
  figure::FigureFormat format;
  format.kind = chosenKind() == Kind::pdf   ? figure::FigureFormat::Kind::pdf
                : chosenKind() == Kind::svg ? figure::FigureFormat::Kind::svg
                                            : figure::FigureFormat::Kind::png;
  format.widthMm = m_width->value();
  format.dpi = m_dpi->value();
  if (m_font->value() > kFontByWidth) format.fontSizePt = m_font->value();
  return format;
}

void ExportDialog::choosePath() {
  const QString ending = endingOf(chosenKind());
  const QString path = QFileDialog::getSaveFileName(this, tr("Export"), "foxscope." + ending, "*." + ending);
  if (path.isEmpty()) return;
  write(path);
  accept();
}

void ExportDialog::write(const QString& path) {
  // A file is what its name says.
  const QString ending = QFileInfo(path).suffix().toLower();
  for (int index = 0; index < m_kind->count(); ++index) {
    if (ending == endingOf(static_cast<Kind>(m_kind->itemData(index).toInt()))) m_kind->setCurrentIndex(index);
  }
  if (ending != endingOf(chosenKind())) {
    emit m_document.messageRaised(
        {Message::Kind::error, tr("%1: %2 cannot be written as “.%3”: end the name in .%4")
                                   .arg(path, m_source->currentText(), ending, endingOf(chosenKind()))});
    return;
  }
  switch (chosenSource()) {
    case Source::map:
      return isData(chosenKind()) ? writeMapData(path) : writeMapPicture(path);
    case Source::curves:
      return writeCurves(path);
    case Source::window:
      return writeWindow(path);
    case Source::figures:
      return writeFigure(path);
  }
}

void ExportDialog::writeMapPicture(const QString& path) {
  m_document.writeFile(path, [shown = *m_map, format = format(), path](const Job& job) -> std::optional<bool> {
    // A print has more dots than the screen: the map is computed for them.
    const figure::PixelRoom room = figure::mapRoom(shown.figure().request, format);
    const auto figure = shown.figure({room.rows, room.columns}, job);
    if (!figure) return std::nullopt;
    writeFile(path, figure::drawMap(*figure, format));
    return true;
  });
}

void ExportDialog::writeMapData(const QString& path) {
  MapRequest request = m_map->picture->computed;
  if (m_everyEntry->isChecked()) {
    request.pixel_rows = request.rows.size();
    request.pixel_columns = request.columns.size();
  }
  request.skip_tolerance = 0;
  m_document.writeFile(path, [request, kind = chosenKind(), path](const Job& job) -> std::optional<bool> {
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

void ExportDialog::writeCurves(const QString& path) {
  if (chosenKind() == Kind::csv) {
    m_document.writeFile(path, [content = m_curveData.toStdString(), path](const Job&) {
      writeFile(path, content);
      return std::optional(true);
    });
    return;
  }
  m_document.writeFile(path, [figure = *m_curves, format = format(), path](const Job&) {
    writeFile(path, figure::drawCurves(figure, format));
    return std::optional(true);
  });
}

void ExportDialog::writeWindow(const QString& path) {
  const QImage picture = m_window.grab().toImage().convertToFormat(QImage::Format_RGB32);
  m_document.writeFile(path, [picture, pdf = chosenKind() == Kind::pdf, path](const Job&) {
    writeFile(path, pdf ? pdfOf(picture) : pngOf(picture));
    return std::optional(true);
  });
}

void ExportDialog::writeFigure(const QString& path) {
  figure::FigureStyle style;
  style.format = format();
  m_document.writeFile(path, [draw = chosenFigure()->draw, style, path](const Job& job) -> std::optional<bool> {
    const auto file = draw(style, job);
    if (!file) return std::nullopt;
    writeFile(path, *file);
    return true;
  });
}

}  // namespace foxscope::gui
