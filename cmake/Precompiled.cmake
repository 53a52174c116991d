# Headers that are compiled once. Each source still includes what it needs itself: clang-tidy reads every file without
# these. They are chosen by what many sources include: loading a large set costs more than it saves (CLI11 precompiled
# doubles the time of a command's source).
#
#   foxscope_precompile(TARGET HEADERS...)  compiles the common headers and HEADERS for the target
#   target_precompile_headers(TARGET REUSE_FROM OTHER)  uses those of another target with the same options
set(FOXSCOPE_COMMON_HEADERS
    <algorithm> <array> <bit> <cmath> <cstddef> <cstdint> <cstring> <filesystem> <functional> <limits> <map> <memory>
    <mutex> <numeric> <optional> <span> <stop_token> <string> <string_view> <utility> <vector> <fmt/format.h>)
set(FOXSCOPE_QT_HEADERS
    <QAction> <QApplication> <QComboBox> <QDialog> <QHBoxLayout> <QJsonObject> <QKeyEvent> <QLabel> <QLineEdit> <QMenu>
    <QMouseEvent> <QPainter> <QPushButton> <QSettings> <QSpinBox> <QString> <QTimer> <QToolBar> <QToolButton>
    <QVBoxLayout> <QWidget>)

function(foxscope_precompile target)
  target_precompile_headers(${target} PRIVATE ${FOXSCOPE_COMMON_HEADERS} ${ARGN})
endfunction()

# A program uses the headers that were compiled for a library only when its own code is compiled alike: -fPIC, not -fPIE.
set(CMAKE_CXX_COMPILE_OPTIONS_PIE -fPIC)
