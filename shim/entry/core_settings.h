#ifndef SHIM_ENTRY_CORE_SETTINGS_H
#define SHIM_ENTRY_CORE_SETTINGS_H

#include "config/config.h"
#include "core/call/call.h"

/* Returns the settings of core for the options, without the rules of REGISTER and EXCLUDE. */
struct ss_settings shim_settings_of(const struct cfg *cfg, const struct cfg_options *options);

#endif
