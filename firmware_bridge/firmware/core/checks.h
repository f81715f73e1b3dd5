/* Checks of a blob when it is opened. A blob from the serial line is not trusted: after them no operator reads or writes
 * outside of blob and arena. */
#ifndef CORE_CHECKS_H
#define CORE_CHECKS_H

#include "core/kernels.h"
#include "core/model.h"

static inline bool is_within(uint32_t at, uint32_t bytes, uint32_t total)
{
	return at <= total && bytes <= total - at;
}

static inline bool is_scale_good(const struct blob_tensor *tensor)
{
	return tensor->scale > 1e-30f && tensor->scale < 1e30f;
}

static inline const struct blob_tensor *tensor_at(const struct model *model, uint32_t number)
{
	return number < model->header->tensor_count ? &model->tensors[number] : NULL;
}

bool is_tensor_good(const struct model *model, const struct blob_tensor *tensor);
/* Its operands may be NULL where the blob has none, or not those of its kind. */
bool is_operator_good(const struct model *model, const struct operands *o);

#endif
