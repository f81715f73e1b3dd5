/* A model: a checked blob, and an arena to run it in. */
#ifndef CORE_MODEL_H
#define CORE_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "core/blob.h"

/* As in docs/firmware-protocol.md, "Model reasons". */
enum model_state { MODEL_READY, MODEL_NONE, MODEL_BAD_HEADER, MODEL_BAD_OPERATOR, MODEL_BAD_TENSOR, MODEL_NO_MEMORY };

struct model {
	const struct blob_header *header;
	const struct blob_tensor *tensors;
	const struct blob_operator *operators;
	const uint8_t *blob;
	uint8_t *arena;
	uint32_t input_bytes;  /* as the host sends it */
	uint32_t output_bytes; /* of all outputs together */
	uint32_t run_count;    /* operators of an inference, without those of a reset */
};

/* Check every byte that is used in a run. Blob and arena begin at multiples of 16. */
enum model_state model_open(struct model *model, const uint8_t *blob, size_t blob_max, uint8_t *arena,
			    size_t arena_max);
/* Bytes of an input as the host sends them, into the input tensor. */
void model_set_input(const struct model *model, const uint8_t *data);
void model_run(const struct model *model);
/* The same, with a call after each operator. */
void model_run_observed(const struct model *model, void (*after)(void));
/* Name of the next operator that runs in an inference, from *index on, which is set behind it; NULL: none. */
const char *model_next_name(const struct model *model, uint32_t *index);
/* Give the variables of a model their first values. */
void model_reset(const struct model *model);
const struct blob_tensor *model_input(const struct model *model);
const struct blob_tensor *model_output(const struct model *model, uint32_t index);
const void *model_data(const struct model *model, const struct blob_tensor *tensor);
/* Number of elements of a tensor. */
uint32_t model_count(const struct blob_tensor *tensor);
/* An element of a tensor as a real number. */
float model_value(const struct model *model, const struct blob_tensor *tensor, uint32_t index);

#endif
