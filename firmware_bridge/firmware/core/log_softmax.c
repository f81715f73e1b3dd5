/* LOG_SOFTMAX of float32, with the roundings of glibc's expf and logf, which the reference kernels call.
 *
 * Both reduce their argument with a table, and then sum a short polynomial in double precision.
 * Source of the constants: Arm Optimized Routines, math/exp2f_data.c and logf_data.c. */
#include <string.h>

#include "core/kernels.h"

#define LN2 0x1.62e42fefa39efp-1

/* exp of x <= 0: 2^(k / 32) of the nearest k, times a polynomial of the rest. */
static float exp_of_float(float x)
{
	/* 2^(i / 32) */
	static const double powers[32] = {
		0x1p+0,               0x1.059b0d3158574p+0, 0x1.0b5586cf9890fp+0, 0x1.11301d0125b51p+0,
		0x1.172b83c7d517bp+0, 0x1.1d4873168b9aap+0, 0x1.2387a6e756238p+0, 0x1.29e9df51fdee1p+0,
		0x1.306fe0a31b715p+0, 0x1.371a7373aa9cbp+0, 0x1.3dea64c123422p+0, 0x1.44e086061892dp+0,
		0x1.4bfdad5362a27p+0, 0x1.5342b569d4f82p+0, 0x1.5ab07dd485429p+0, 0x1.6247eb03a5585p+0,
		0x1.6a09e667f3bcdp+0, 0x1.71f75e8ec5f74p+0, 0x1.7a11473eb0187p+0, 0x1.82589994cce13p+0,
		0x1.8ace5422aa0dbp+0, 0x1.93737b0cdc5e5p+0, 0x1.9c49182a3f090p+0, 0x1.a5503b23e255dp+0,
		0x1.ae89f995ad3adp+0, 0x1.b7f76f2fb5e47p+0, 0x1.c199bdd85529cp+0, 0x1.cb720dcef9069p+0,
		0x1.d5818dcfba487p+0, 0x1.dfc97337b9b5fp+0, 0x1.ea4afa2a490dap+0, 0x1.f50765b6e4540p+0,
	};
	const double c0 = 0x1.c6af84b912394p-20, c1 = 0x1.ebfce50fac4f3p-13, c2 = 0x1.62e42ff0c52d6p-6;
	const float least = -103.97208f; /* below, the result rounds to 0 */

	if (!(x > least)) /* also for NaN */
		return 0;
	double z = (double)x * (0x1.71547652b82fep+0 * 32);
	int32_t k = (int32_t)(z - 0.5);
	double rest = z - k;
	uint64_t bits;

	memcpy(&bits, &powers[k & 31], sizeof bits);
	bits += (uint64_t)(int64_t)(k >> 5) << 52;
	double power;

	memcpy(&power, &bits, sizeof power);
	return (float)(((c0 * rest + c1) * (rest * rest) + (c2 * rest + 1)) * power);
}

/* log of a positive normal number, 2^k z with z in [0.7, 1.4): k log 2 + log c + log(z / c). */
static float log_of_float(float value)
{
	static const double table[16][2] = { /* 1 / c, log c */
		{0x1.661ec79f8f3bep+0, -0x1.57bf7808caadep-2}, {0x1.571ed4aaf883dp+0, -0x1.2bef0a7c06ddbp-2},
		{0x1.49539f0f010bp+0, -0x1.01eae7f513a67p-2},  {0x1.3c995b0b80385p+0, -0x1.b31d8a68224e9p-3},
		{0x1.30d190c8864a5p+0, -0x1.6574f0ac07758p-3}, {0x1.25e227b0b8eap+0, -0x1.1aa2bc79c81p-3},
		{0x1.1bb4a4a1a343fp+0, -0x1.a4e76ce8c0e5ep-4}, {0x1.12358f08ae5bap+0, -0x1.1973c5a611cccp-4},
		{0x1.0953f419900a7p+0, -0x1.252f438e10c1ep-5}, {0x1p+0, 0x0p+0},
		{0x1.e608cfd9a47acp-1, 0x1.aa5aa5df25984p-5},  {0x1.ca4b31f026aap-1, 0x1.c5e53aa362eb4p-4},
		{0x1.b2036576afce6p-1, 0x1.526e57720db08p-3},  {0x1.9c2d163a1aa2dp-1, 0x1.bc2860d22477p-3},
		{0x1.886e6037841edp-1, 0x1.1058bc8a07ee1p-2},  {0x1.767dcf5534862p-1, 0x1.4043057b6ee09p-2},
	};
	const double a0 = -0x1.00ea348b88334p-2, a1 = 0x1.5575b0be00b6ap-2, a2 = -0x1.ffffef20a4123p-2;
	uint32_t bits, above;
	float z;

	memcpy(&bits, &value, sizeof bits);
	above = bits - 0x3f330000; /* 0.7 */
	const double *entry = table[above >> 19 & 15];

	bits -= above & 0xff800000;
	memcpy(&z, &bits, sizeof z);
	double r = (double)z * entry[0] - 1, start = entry[1] + ((int32_t)above >> 23) * LN2;
	double series = a0 * (r * r) + (a1 * r + a2);

	return (float)(series * (r * r) + (start + r));
}

void log_softmax(const struct operands *o)
{
	uint32_t depth = o->in->size[3], count = o->in->bytes / 4;
	const float *in = o->a;
	float *out = o->result;

	for (uint32_t row = 0; row < count; row += depth, in += depth, out += depth) {
		float largest = in[0], sum = 0;

		for (uint32_t i = 1; i < depth; i++)
			largest = in[i] > largest ? in[i] : largest;
		for (uint32_t i = 0; i < depth; i++)
			sum += exp_of_float(in[i] - largest);
		float log_sum = log_of_float(sum);

		for (uint32_t i = 0; i < depth; i++)
			out[i] = in[i] - largest - log_sum;
	}
}
