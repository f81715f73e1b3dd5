/* A security key in software for OpenSSH, which keeps nothing: a key handle is the private key.
 *
 * The interface is that of sk-api.h, and the signed bytes are those of PROTOCOL.u2f, both of OpenSSH.
 * The functions of libcrypto are declared here, as its headers are not installed everywhere.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define API_VERSION 0x000a0000
#define ALGORITHM_ED25519 1
#define FLAG_USER_PRESENT 1
#define ERROR_GENERAL -1
#define ERROR_UNSUPPORTED -2
#define KEY_BYTES 32
#define SIGNATURE_BYTES 64
#define HASH_BYTES 32
#define COUNTER 7
#define NID_ED25519 1087

struct sk_enroll_response {
	uint8_t flags;
	uint8_t *public_key;
	size_t public_key_len;
	uint8_t *key_handle;
	size_t key_handle_len;
	uint8_t *signature;
	size_t signature_len;
	uint8_t *attestation_cert;
	size_t attestation_cert_len;
	uint8_t *authdata;
	size_t authdata_len;
};

struct sk_sign_response {
	uint8_t flags;
	uint32_t counter;
	uint8_t *sig_r;
	size_t sig_r_len;
	uint8_t *sig_s;
	size_t sig_s_len;
};

void *EVP_PKEY_new_raw_private_key(int, void *, const uint8_t *, size_t);
int EVP_PKEY_get_raw_public_key(const void *, uint8_t *, size_t *);
void *EVP_MD_CTX_new(void);
int EVP_DigestSignInit(void *, void **, const void *, void *, void *);
int EVP_DigestSign(void *, uint8_t *, size_t *, const uint8_t *, size_t);
uint8_t *SHA256(const uint8_t *, size_t, uint8_t *);
int RAND_bytes(uint8_t *, int);

uint32_t sk_api_version(void)
{
	return API_VERSION;
}

int sk_enroll(uint32_t algorithm, const uint8_t *challenge, size_t challenge_len,
	      const char *application, uint8_t flags, const char *pin, void *options,
	      struct sk_enroll_response **response)
{
	if (algorithm != ALGORITHM_ED25519)
		return ERROR_UNSUPPORTED;
	struct sk_enroll_response *made = calloc(1, sizeof(*made));
	made->flags = flags;
	made->key_handle_len = made->public_key_len = KEY_BYTES;
	made->key_handle = malloc(KEY_BYTES);
	made->public_key = malloc(KEY_BYTES);
	made->signature = calloc(1, 1); /* no attestation, but not a null pointer either */
	if (RAND_bytes(made->key_handle, KEY_BYTES) != 1)
		return ERROR_GENERAL;
	void *key = EVP_PKEY_new_raw_private_key(NID_ED25519, NULL, made->key_handle, KEY_BYTES);
	if (EVP_PKEY_get_raw_public_key(key, made->public_key, &made->public_key_len) != 1)
		return ERROR_GENERAL;
	*response = made;
	return 0;
}

int sk_sign(uint32_t algorithm, const uint8_t *data, size_t data_len, const char *application,
	    const uint8_t *key_handle, size_t key_handle_len, uint8_t flags, const char *pin,
	    void *options, struct sk_sign_response **response)
{
	if (algorithm != ALGORITHM_ED25519 || key_handle_len != KEY_BYTES)
		return ERROR_UNSUPPORTED;
	struct sk_sign_response *made = calloc(1, sizeof(*made));
	made->flags = flags & FLAG_USER_PRESENT;
	made->counter = COUNTER;
	made->sig_r_len = SIGNATURE_BYTES;
	made->sig_r = malloc(SIGNATURE_BYTES);

	/* The application's hash, the flags, the counter in network order, the message's hash. */
	uint8_t signed_bytes[HASH_BYTES + 1 + 4 + HASH_BYTES] = {0};
	SHA256((const uint8_t *)application, strlen(application), signed_bytes);
	signed_bytes[HASH_BYTES] = made->flags;
	signed_bytes[HASH_BYTES + 4] = COUNTER;
	SHA256(data, data_len, signed_bytes + HASH_BYTES + 5);

	void *key = EVP_PKEY_new_raw_private_key(NID_ED25519, NULL, key_handle, KEY_BYTES);
	void *context = EVP_MD_CTX_new();
	if (EVP_DigestSignInit(context, NULL, NULL, NULL, key) != 1 ||
	    EVP_DigestSign(context, made->sig_r, &made->sig_r_len, signed_bytes,
			   sizeof(signed_bytes)) != 1)
		return ERROR_GENERAL;
	*response = made;
	return 0;
}

int sk_load_resident_keys(const char *pin, void *options, void *keys, size_t *count)
{
	return ERROR_UNSUPPORTED;
}
