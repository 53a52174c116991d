#include "tests/text/helpers.h"
