#pragma once
#include <stdlib.h>

typedef int esp_err_t;
#define ESP_ERROR_CHECK(x) ((x) ? abort() : (void)0)
