#include "app/gui/window/remote/remote_dialog.h"

#include <algorithm>

#include <QCheckBox>
#include <QCompleter>
#include <QDialogButtonBox>
#include <QFormLayout>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QKeyEvent>
#include <QSplitter>
#include <QVBoxLayout>

#include "app/gui/document/document.h"
#include "app/gui/document/remote/remote_model.h"
#include "app/gui/document/remote/remote_place.h"
#include "app/gui/views/elided_label.h"
#include "app/gui/views/icon.h"
#include "app/gui/views/theme.h"
#include "app/gui/window/settings.h"
#include "backend/agent/remote_files.h"
#include "backend/agent/ssh_hosts.h"
#include "backend/base/error.h"

namespace foxscope::gui {
namespace {

constexpr int kUrlRole = Qt::UserRole;
constexpr int kPlacesInCharacters = 26;
constexpr QSize kFirstSize(920, 560);

QString joined(const QString& folder, const QString& name) {
  return folder.endsWith('/') ? folder + name : folder + '/' + name;
}

}  // namespace

RemoteDialog::RemoteDialog(Document& document, Settings& settings, bool remembers, QWidget* parent)
    : QDialog(parent), m_document(document), m_settings(settings), m_remembers(remembers) {
  setWindowTitle(tr("Open on another machine"));
  makeWidgets();
  fillPlaces({});
  tell(tr("Choose a machine of ssh's configuration, or type USER@HOST:PORT."));
  JobRunner::Request<QStringList> request;
  request.work = [](const Job&) {
    QStringList hosts;
    for (const std::string& host : agent::ssh_hosts(agent::ssh_configuration())) hosts += QString::fromStdString(host);
    return std::optional(hosts);
  };
  request.done = [this](const QStringList& hosts) { fillPlaces(hosts); };
  m_document.runs().quickJobs().submit(this, kHosts, std::move(request));
  resize(parent == nullptr ? kFirstSize : kFirstSize.boundedTo(parent->size() * 0.95));
}

void RemoteDialog::makeWidgets() {
  auto* column = new QVBoxLayout(this);
  m_places = new QListWidget;
  m_places->setAccessibleName(tr("Last places and machines"));
  m_places->setTextElideMode(Qt::ElideMiddle);
  m_places->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  m_places->setIconSize({fontMetrics().height(), fontMetrics().height()});
  m_places->setMinimumWidth(fontMetrics().averageCharWidth() * kPlacesInCharacters / 2);

  auto* top = new QFormLayout;
  auto* machineRow = new QHBoxLayout;
  m_machine = new QLineEdit;
  m_machine->setPlaceholderText(tr("[USER@]HOST[:PORT]"));
  machineRow->addWidget(m_machine, 1);
  m_connect = new QPushButton(tr("&Connect"));
  m_connect->setAutoDefault(false);
  machineRow->addWidget(m_connect);
  auto* machineLabel = new QLabel(tr("&Machine"));
  machineLabel->setBuddy(m_machine);
  top->addRow(machineLabel, machineRow);
  auto* folderRow = new QHBoxLayout;
  m_folder = new QLineEdit;
  folderRow->addWidget(m_folder, 1);
  m_up = new QToolButton;
  m_up->setIcon(themedIcon(QStringLiteral("up")));
  m_up->setToolTip(tr("To the folder that this one lies in (Backspace)"));
  m_up->setAccessibleName(tr("Folder above"));
  folderRow->addWidget(m_up);
  auto* folderLabel = new QLabel(tr("&Folder"));
  folderLabel->setBuddy(m_folder);
  top->addRow(folderLabel, folderRow);

  m_rows.setSourceModel(&m_list);
  m_entries = new QTreeView;
  m_entries->setModel(&m_rows);
  m_entries->setAccessibleName(tr("Files and folders"));
  m_entries->setRootIsDecorated(false);
  m_entries->setUniformRowHeights(true);
  m_entries->setAllColumnsShowFocus(true);
  m_entries->setSelectionMode(QAbstractItemView::ExtendedSelection);
  m_entries->setTextElideMode(Qt::ElideMiddle);
  m_entries->setSortingEnabled(true);
  m_entries->sortByColumn(FolderModel::kName, Qt::AscendingOrder);
  m_entries->header()->setStretchLastSection(false);
  m_entries->header()->setSectionResizeMode(FolderModel::kName, QHeaderView::Stretch);
  for (const int fixed : {FolderModel::kWhat, FolderModel::kSize, FolderModel::kDate}) {
    m_entries->header()->setSectionResizeMode(fixed, QHeaderView::ResizeToContents);
  }
  m_entries->installEventFilter(this);

  m_model = new QWidget;
  auto* modelColumn = new QVBoxLayout(m_model);
  modelColumn->setContentsMargins(0, 0, 0, 0);
  m_facts = new ElidedLabel;
  modelColumn->addWidget(m_facts);
  auto* model = new QHBoxLayout;
  modelColumn->addLayout(model);
  auto* runsOn = new QLabel(tr("&Runs there on"));
  model->addWidget(runsOn);
  m_device = new QComboBox;
  m_device->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  m_device->setMinimumContentsLength(kPlacesInCharacters);
  runsOn->setBuddy(m_device);
  model->addWidget(m_device, 1);
  m_model->hide();

  m_all = new QCheckBox(tr("&All files"));
  m_all->setToolTip(tr("Also files that are not recognised, and hidden ones"));
  m_message = new QLabel;
  m_message->setWordWrap(true);
  m_message->setTextFormat(Qt::PlainText);
  m_message->setTextInteractionFlags(Qt::TextSelectableByMouse);
  m_message->setMinimumHeight(2 * fontMetrics().lineSpacing());
  m_message->setAlignment(Qt::AlignLeft | Qt::AlignVCenter);

  auto* right = new QWidget;
  auto* rightColumn = new QVBoxLayout(right);
  rightColumn->setContentsMargins(0, 0, 0, 0);
  rightColumn->addLayout(top);
  rightColumn->addWidget(m_entries, 1);
  rightColumn->addWidget(m_model);
  auto* split = new QSplitter;
  split->setChildrenCollapsible(false);
  split->addWidget(m_places);
  split->addWidget(right);
  split->setStretchFactor(1, 1);
  split->setSizes({fontMetrics().averageCharWidth() * kPlacesInCharacters, kFirstSize.width()});
  column->addWidget(split, 1);
  column->addWidget(m_message);
  auto* buttons = new QDialogButtonBox(QDialogButtonBox::Cancel);
  m_open = buttons->addButton(tr("&Open"), QDialogButtonBox::ActionRole);
  m_open->setEnabled(false);
  for (QAbstractButton* button : buttons->buttons()) qobject_cast<QPushButton*>(button)->setAutoDefault(false);
  auto* last = new QHBoxLayout;
  last->addWidget(m_all);
  last->addWidget(buttons, 1);
  column->addLayout(last);
  QWidget* before = m_places;
  for (QWidget* next :
       std::initializer_list<QWidget*>{m_machine, m_connect, m_folder, m_up, m_entries, m_device, m_all, m_open}) {
    setTabOrder(before, next);
    before = next;
  }

  connect(buttons, &QDialogButtonBox::rejected, this, &RemoteDialog::reject);
  connect(m_open, &QPushButton::clicked, this, &RemoteDialog::openChosen);
  connect(m_machine, &QLineEdit::returnPressed, this, &RemoteDialog::connectMachine);
  connect(m_connect, &QPushButton::clicked, this, &RemoteDialog::connectMachine);
  connect(m_folder, &QLineEdit::returnPressed, this, [this] {
    if (!m_shown) return connectMachine();
    const QString path = m_folder->text().trimmed();
    list({m_shown->host, (path.isEmpty() ? QStringLiteral("~") : path).toStdString()});
  });
  connect(m_up, &QToolButton::clicked, this, &RemoteDialog::goUp);
  connect(m_all, &QCheckBox::toggled, this, [this](bool all) {
    m_rows.showAll(all);
    if (m_shown) tellCount(m_more);
  });
  connect(m_entries, &QTreeView::activated, this, &RemoteDialog::activate);
  connect(m_entries->selectionModel(), &QItemSelectionModel::selectionChanged, this, &RemoteDialog::followChoice);
  const auto chosen = [this](const QListWidgetItem* item) {
    const QString url = item->data(kUrlRole).toString();
    if (!url.isEmpty()) go(url);
  };
  connect(m_places, &QListWidget::itemActivated, this, chosen);
  connect(m_places, &QListWidget::itemClicked, this, chosen);
}

void RemoteDialog::fillPlaces(const QStringList& hosts) {
  m_places->clear();
  const auto add = [this](const QString& text, const QString& url, const QString& icon) {
    auto* item = new QListWidgetItem(text, m_places);
    item->setData(kUrlRole, url);
    item->setToolTip(url);
    if (!icon.isEmpty()) item->setIcon(themedIcon(icon));
    if (!url.isEmpty()) return;
    item->setFlags(Qt::NoItemFlags);
    QFont font = item->font();
    font.setBold(true);
    item->setFont(font);
  };
  const QStringList places = m_settings.remotePlaces();
  if (!places.isEmpty()) add(tr("Last places"), {}, {});
  for (const QString& place : places) {
    add(QStringLiteral("%1: %2").arg(hostOf(place), pathThere(place)), place, QStringLiteral("file"));
  }
  if (!hosts.isEmpty()) add(tr("Machines of ssh's configuration"), {}, {});
  for (const QString& host : hosts) {
    add(host, QStringLiteral("ssh://%1/~").arg(host), QStringLiteral("machine"));
  }
  auto* completer = new QCompleter(hosts, m_machine);
  completer->setCaseSensitivity(Qt::CaseInsensitive);
  m_machine->setCompleter(completer);
  m_places->setVisible(m_places->count() > 0);
  for (int row = 0; row < m_places->count(); ++row) {
    if (m_places->item(row)->flags() == Qt::NoItemFlags) continue;
    m_places->setCurrentRow(row);
    break;
  }
  if (m_shown || m_asking) return;
  m_places->count() > 0 ? m_places->setFocus() : m_machine->setFocus();
}

void RemoteDialog::go(const QString& url) {
  try {
    const agent::RemotePath folder = agent::parse_remote_path(url.toStdString());
    m_machine->setText(QString::fromStdString(folder.host.words()));
    list(folder);
  } catch (const UsageError& error) {
    tell(QString::fromStdString(error.what()), true);
  }
}

void RemoteDialog::connectMachine() {
  const QString typed = m_machine->text().trimmed();
  if (typed.isEmpty()) {
    m_machine->setFocus();
    return tell(tr("Type the machine: USER@HOST:PORT, or a name of ssh's configuration."), true);
  }
  // A whole URL may be pasted, too.
  go(isRemote(typed) ? typed : QStringLiteral("ssh://%1/~").arg(typed));
}

void RemoteDialog::list(const agent::RemotePath& folder, const QString& select) {
  m_asking = true;
  m_document.machines().follow(QString::fromStdString(folder.url()));
  const QString name = QString::fromStdString(folder.host.words());
  tell(m_shown && m_shown->host == folder.host ? tr("Reading %1 …").arg(QString::fromStdString(folder.path))
                                               : tr("Connecting to %1 …").arg(name));
  // Somebody who asks wants an answer, also after the connection was lost.
  m_document.machines().tryAgain(folder.host);
  JobRunner::Request<agent::FolderList> request;
  request.work = [folder](const Job& job) { return agent::list_folder(folder, job); };
  request.done = [this, folder, select](const agent::FolderList& list) { receive(folder, list, select); };
  request.failed = [this](const QString& message) {
    m_asking = false;
    tell(message, true);
  };
  m_document.machines().jobs(folder.host).submit(this, kFolder, std::move(request));
}

void RemoteDialog::receive(const agent::RemotePath& asked, const agent::FolderList& list, const QString& select) {
  m_asking = false;
  m_more = list.more;
  m_shown = {asked.host, list.resolved.empty() ? asked.path : list.resolved};
  m_machine->setText(QString::fromStdString(asked.host.words()));
  m_folder->setText(QString::fromStdString(m_shown->path));
  m_list.setFolder(list);
  tellCount(list.more);
  QModelIndex current = m_rows.index(0, 0);
  for (int row = 0; row < m_rows.rowCount() && !select.isEmpty(); ++row) {
    if (m_rows.index(row, 0).data().toString() == select) current = m_rows.index(row, 0);
  }
  m_entries->setCurrentIndex(current);
  m_entries->scrollTo(current);
  m_entries->setFocus();
  followChoice();
}

void RemoteDialog::tellCount(bool more) {
  const int all = m_list.rowCount();
  const int shown = m_rows.rowCount();
  if (more) return tell(tr("The first %1 entries; there are more: type the path of what you look for.").arg(all));
  if (shown == 0) return tell(tr("No run file, model, training, evaluation or text in %1 entries.").arg(all));
  tell(shown == all ? tr("%1 entries.").arg(all) : tr("%1 of %2 entries.").arg(shown).arg(all));
}

void RemoteDialog::goUp() {
  if (!m_shown || m_shown->path == "/") return;
  const QString path = QString::fromStdString(m_shown->path);
  const QString above = path.section('/', 0, -2);
  list({m_shown->host, (above.isEmpty() ? QStringLiteral("/") : above).toStdString()}, path.section('/', -1));
}

QString RemoteDialog::urlOf(int row) const {
  const QString path = joined(QString::fromStdString(m_shown->path), m_list.name(row));
  return QString::fromStdString(agent::RemotePath{m_shown->host, path.toStdString()}.url());
}

QList<int> RemoteDialog::chosenRows() const {
  QList<int> rows;
  for (const QModelIndex& index : m_entries->selectionModel()->selectedRows()) rows += m_rows.mapToSource(index).row();
  std::ranges::sort(rows);
  return rows;
}

void RemoteDialog::activate(const QModelIndex& index) {
  const int row = m_rows.mapToSource(index).row();
  const bool opens = !m_list.isFolder(row) || !m_list.holds(row).empty();
  opens ? openChosen() : enter(index);
}

void RemoteDialog::enter(const QModelIndex& index) {
  if (!index.isValid() || !m_shown) return;
  const int row = m_rows.mapToSource(index).row();
  if (!m_list.isFolder(row)) return;
  list({m_shown->host, joined(QString::fromStdString(m_shown->path), m_list.name(row)).toStdString()});
}

void RemoteDialog::openChosen() {
  const QList<int> rows = chosenRows();
  if (rows.isEmpty() || !m_shown) return;
  if (rows.size() == 1 && m_list.isFolder(rows.front()) && m_list.holds(rows.front()).empty()) {
    return enter(m_entries->selectionModel()->selectedRows().front());
  }
  QStringList urls;
  for (const int row : rows) {
    if (!m_list.isFolder(row) || !m_list.holds(row).empty()) urls += urlOf(row);
  }
  if (urls.isEmpty()) return;
  if (m_remembers) m_settings.addRemotePlace(QString::fromStdString(m_shown->url()));
  const QString device = m_model->isVisible() ? m_device->currentData().toString() : QString();
  m_document.open(urls, device);
  accept();
}

void RemoteDialog::followChoice() {
  const QList<int> rows = chosenRows();
  const auto known = [this](int row) { return m_list.isFolder(row) ? !m_list.holds(row).empty() : true; };
  const bool folder = rows.size() == 1 && m_list.isFolder(rows.front());
  m_open->setEnabled(folder || std::any_of(rows.begin(), rows.end(), known));
  m_open->setText(folder && !known(rows.front()) ? tr("&Enter") : tr("&Open"));
  const bool runs = folder && known(rows.front());
  describeModel(runs ? urlOf(rows.front()) : QString());
}

// A model's facts come from the program there.
void RemoteDialog::describeModel(const QString& path) {
  if (path == m_described) return;
  m_described = path;
  m_askingModel = false;
  if (m_shown) m_document.machines().jobs(m_shown->host).cancel(this, kModel);
  m_model->setVisible(!path.isEmpty());
  if (path.isEmpty()) return;
  m_askingModel = true;
  m_facts->setFullText(tr("reading what it is …"));
  m_device->clear();
  m_device->addItem(tr("auto: a GPU if there is one"), QString());
  const bool training = m_list.holds(chosenRows().front()) == "training";
  JobRunner::Request<ModelThere> request;
  request.work = [path, training](const Job& job) { return modelThere(path, training, job); };
  request.done = [this](const ModelThere& model) {
    m_askingModel = false;
    m_facts->setFullText(model.facts);
    for (const ModelThere::Device& device : model.devices) m_device->addItem(device.words, device.word);
  };
  request.failed = [this](const QString& message) {
    m_askingModel = false;
    m_facts->setFullText({});
    tell(message, true);
  };
  m_document.machines().jobs(m_shown->host).submit(this, kModel, std::move(request));
}

void RemoteDialog::tell(const QString& message, bool isError) {
  m_message->setText(message);
  if (isError) {
    m_message->setPalette(palette());
    m_message->setForegroundRole(QPalette::WindowText);
  } else {
    muteText(*m_message, palette());
  }
}

void RemoteDialog::done(int result) {
  if (m_shown) {
    m_document.machines().jobs(m_shown->host).cancel(this, kModel);
    m_document.machines().jobs(m_shown->host).cancel(this, kFolder);
  }
  m_document.runs().quickJobs().cancel(this, kHosts);
  QDialog::done(result);
}

bool RemoteDialog::eventFilter(QObject* watched, QEvent* event) {
  if (watched != m_entries || event->type() != QEvent::KeyPress) return QDialog::eventFilter(watched, event);
  switch (static_cast<QKeyEvent*>(event)->key()) {
    case Qt::Key_Backspace:
    case Qt::Key_Left:
      goUp();
      return true;
    case Qt::Key_Right:
      enter(m_entries->currentIndex());
      return true;
    case Qt::Key_Return:
    case Qt::Key_Enter:
      if (m_entries->currentIndex().isValid()) activate(m_entries->currentIndex());
      return true;
    default:
      return QDialog::eventFilter(watched, event);
  }
}

}  // namespace foxscope::gui
