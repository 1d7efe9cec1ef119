/* The parameters of a flow, and its environment. */
#ifndef CLI_FLOW_PARAMS_H
#define CLI_FLOW_PARAMS_H

#include "cli/command.h"
#include "cli/flow_reader.h"

#include <jansson.h>

/*
 * Gives the stage the environment of the flow and its parameters, which are given ("NAME=VALUE") or
 * have a value in the file. What the stage itself says counts most. 0 or a code with its sentence.
 */
int flow_params_apply(struct flow_reader *reader, json_t *flow, json_t *stage,
                      const struct text_list *given);

#endif
