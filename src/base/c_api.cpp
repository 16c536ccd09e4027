#include "base/c_api.h"

const char* gull_last_error(void) { return gull::last_c_error().c_str(); }
