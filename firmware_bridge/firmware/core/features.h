/* Features of the streaming wake-word model: logarithms of the energies in 40 mel bands.
 * Source: mlcommons/tiny, benchmark/training/streaming_wakeword/get_dataset.py (lfbe). */
#ifndef CORE_FEATURES_H
#define CORE_FEATURES_H

#include <stdint.h>

#define FEATURE_SAMPLES 1024u /* 64 ms at 16 kHz */
#define FEATURE_STRIDE 512u
#define FEATURE_BINS (FEATURE_SAMPLES / 2 + 1)
#define FEATURE_BANDS 40u

struct feature_space {
	float values[FEATURE_SAMPLES], power[FEATURE_BINS];
};

/* devtools/write_feature_tables.py. */
extern const float feature_window[FEATURE_SAMPLES / 2];
extern const float feature_cosines[FEATURE_SAMPLES / 4 + 1];
extern const float feature_places[FEATURE_BINS];

/* 40 numbers from 0 to 1, from FEATURE_SAMPLES samples and the sample before them. */
void features_of(const int16_t *samples, int16_t before, float *bands, struct feature_space *space);

#endif
