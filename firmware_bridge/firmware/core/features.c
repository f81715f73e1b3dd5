#include "core/features.h"

#include <string.h>

#define HALF (FEATURE_SAMPLES / 2) /* complex numbers that represent the samples */
#define QUARTER (FEATURE_SAMPLES / 4)
#define HALF_BITS 9

/* The angle is index / FEATURE_SAMPLES of a turn, at most half a turn. */
static float cosine(uint32_t index)
{
	return index <= QUARTER ? feature_cosines[index] : -feature_cosines[HALF - index];
}

static float sine(uint32_t index)
{
	return index <= QUARTER ? feature_cosines[QUARTER - index] : feature_cosines[index - QUARTER];
}

static void swap_reversed(float *z)
{
	for (uint32_t i = 0; i < HALF; i++) {
		uint32_t reversed = 0;

		for (uint32_t bit = 0; bit < HALF_BITS; bit++)
			reversed |= (i >> bit & 1) << (HALF_BITS - 1 - bit);
		if (reversed <= i)
			continue;
		for (uint32_t part = 0; part < 2; part++) {
			float value = z[2 * i + part];

			z[2 * i + part] = z[2 * reversed + part];
			z[2 * reversed + part] = value;
		}
	}
}

/* Cooley and Tukey's transform in place, of HALF complex numbers. */
static void transform(float *z)
{
	swap_reversed(z);
	for (uint32_t size = 2; size <= HALF; size *= 2) {
		for (uint32_t k = 0; k < size / 2; k++) {
			float real = cosine(k * (FEATURE_SAMPLES / size)), imaginary = -sine(k * (FEATURE_SAMPLES / size));

			for (uint32_t at = k; at < HALF; at += size) {
				float *a = z + 2 * at, *b = a + size;
				float r = b[0] * real - b[1] * imaginary, i = b[0] * imaginary + b[1] * real;

				b[0] = a[0] - r;
				b[1] = a[1] - i;
				a[0] += r;
				a[1] += i;
			}
		}
	}
}

/* Even samples are the real parts, odd samples the imaginary parts: separate their transforms. */
static void power_of(const float *z, float *power)
{
	for (uint32_t k = 0; k < FEATURE_BINS; k++) {
		const float *a = z + 2 * (k % HALF), *b = z + 2 * ((HALF - k) % HALF);
		float even_r = (a[0] + b[0]) / 2, even_i = (a[1] - b[1]) / 2;
		float odd_r = (a[1] + b[1]) / 2, odd_i = (b[0] - a[0]) / 2;
		float r = even_r + odd_r * cosine(k) + odd_i * sine(k);
		float i = even_i + odd_i * cosine(k) - odd_r * sine(k);

		power[k] = (r * r + i * i) / FEATURE_SAMPLES;
	}
}

/* 10 log10 of a positive normal number: its exponent, and the series of atanh for the rest. */
static float decibels(float value)
{
	const float of_two = 3.01029996f, of_e = 4.34294482f; /* 10 log10 of 2 and of e */
	uint32_t bits;
	int32_t exponent;

	memcpy(&bits, &value, sizeof bits);
	exponent = (int32_t)(bits >> 23) - 127;
	bits = (bits & 0x7fffffu) | 0x3f800000u;
	memcpy(&value, &bits, sizeof value);
	if (value > 1.41421356f) {
		value /= 2;
		exponent++;
	}
	float s = (value - 1) / (value + 1), s2 = s * s;
	float series = s * (1 + s2 * (1 / 3.0f + s2 * (1 / 5.0f + s2 * (1 / 7.0f + s2 / 9))));

	return (float)exponent * of_two + 2 * series * of_e;
}

void features_of(const int16_t *samples, int16_t before, float *bands, struct feature_space *space)
{
	const float emphasis = 0.96875f, least = 1e-30f, offset = 52, range = 64;

	for (uint32_t i = 0; i < FEATURE_SAMPLES; i++) {
		float sample = (float)samples[i] / 32768 - emphasis * ((float)before / 32768);

		before = samples[i];
		space->values[i] = sample * feature_window[i < HALF ? i : FEATURE_SAMPLES - 1 - i];
	}
	transform(space->values);
	power_of(space->values, space->power);
	memset(bands, 0, FEATURE_BANDS * sizeof *bands);
	for (uint32_t k = 1; k < FEATURE_BINS; k++) {
		uint32_t rising = (uint32_t)feature_places[k];
		float weight = feature_places[k] - (float)rising;

		if (rising < FEATURE_BANDS)
			bands[rising] += weight * space->power[k];
		if (rising > 0 && rising <= FEATURE_BANDS)
			bands[rising - 1] += (1 - weight) * space->power[k];
	}
	for (uint32_t i = 0; i < FEATURE_BANDS; i++) {
		float feature = (decibels(bands[i] > least ? bands[i] : least) + offset) / range;

		bands[i] = feature < 0 ? 0 : feature > 1 ? 1 : feature;
	}
}
