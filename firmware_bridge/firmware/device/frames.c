/* The frame mode of docs/firmware-protocol.md. */
#include <string.h>

#include "core/checksum.h"
#include "device/device.h"
#include "device/port.h"
#include "device/text.h"

enum kind { INPUT_BEGIN = 0x01, INPUT_DATA, MODEL_BEGIN, MODEL_DATA, MODEL_COMMIT, LEAVE = 0x0f, ACK = 0x80, NAK };
enum error {
	NONE, BAD_FRAME, UNKNOWN_KIND, BAD_PAYLOAD, TOO_LARGE, BAD_OFFSET, NOT_BEGUN, MODEL_INCOMPLETE,
	MODEL_CRC, MODEL_REFUSED, MODEL_LINKED,
};
enum { HEAD = 2, TAIL = 4, LONGEST_REPLY = HEAD + 6 + TAIL };

struct reply {
	enum error error;
	uint32_t received;
};

static uint32_t number_at(const uint8_t *data)
{
	return data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
}

static void put_number(uint8_t *to, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		to[i] = (uint8_t)(value >> 8 * i);
}

/* Decode COBS in place; returns the size of the result, or 0 if it is not a frame. */
static uint32_t cobs_decode(uint8_t *data, uint32_t size)
{
	uint32_t from = 0, to = 0;

	while (from < size) {
		uint32_t run = data[from++];

		if (run - 1 > size - from)
			return 0;
		memmove(data + to, data + from, run - 1);
		from += run - 1;
		to += run - 1;
		if (run < 255 && from < size)
			data[to++] = 0;
	}
	return to;
}

static void put_reply(uint8_t sequence, struct reply reply)
{
	uint8_t frame[LONGEST_REPLY] = {reply.error ? NAK : ACK, sequence}, run = 1;
	uint32_t size = HEAD;

	if (reply.error) {
		frame[size++] = (uint8_t)reply.error;
		frame[size++] = reply.error == MODEL_REFUSED ? (uint8_t)device.state : 0;
	}
	put_number(frame + size, reply.received);
	size += 4;
	put_number(frame + size, crc32(0, frame, size));
	size += TAIL;
	for (uint32_t from = 0, i = 0; i <= size; i++, run++) {
		if (i < size && frame[i])
			continue;
		put_bytes(&run, 1);
		put_bytes(frame + from, run - 1u);
		from = i + 1;
		run = 0;
	}
	put_bytes((const uint8_t *)"", 1);
	put_flush();
}

static struct reply append(struct load *load, uint8_t *to, const uint8_t *payload, uint32_t size)
{
	uint32_t offset = size > 4 ? number_at(payload) : 0, count = size > 4 ? size - 4 : 0;

	if (!load->is_open)
		return (struct reply){NOT_BEGUN, 0};
	if (count == 0 || count > FRAME_MAX_DATA)
		return (struct reply){BAD_PAYLOAD, load->received};
	if (offset > load->size || count > load->size - offset)
		return (struct reply){TOO_LARGE, load->received};
	if (offset != load->received && (offset > load->received || offset + count > load->received))
		return (struct reply){BAD_OFFSET, load->received};
	memcpy(to + offset, payload + 4, count);
	if (offset == load->received)
		load->received += count;
	return (struct reply){NONE, load->received};
}

static struct reply model_begin(const uint8_t *payload, uint32_t size)
{
	uint32_t model_bytes;

	if (size != 8)
		return (struct reply){BAD_PAYLOAD, 0};
	if (port.is_model_linked)
		return (struct reply){MODEL_LINKED, 0};
	model_bytes = number_at(payload);
	device.model_load = (struct load){0};
	if (model_bytes == 0 || model_bytes > port.model_max)
		return (struct reply){TOO_LARGE, 0};
	memset(port.model, 0, 16); /* no magic number: no model is present now */
	open_model();
	device.model_load = (struct load){.is_open = true, .size = model_bytes, .crc32 = number_at(payload + 4)};
	return (struct reply){NONE, 0};
}

static struct reply model_commit(uint32_t size)
{
	struct load *load = &device.model_load;
	uint32_t received = load->received;

	if (size != 0)
		return (struct reply){BAD_PAYLOAD, received};
	if (!load->is_open)
		return (struct reply){NOT_BEGUN, 0};
	if (received != load->size)
		return (struct reply){MODEL_INCOMPLETE, received};
	load->is_open = false;
	if (crc32(0, port.model, load->size) != load->crc32) {
		memset(port.model, 0, 16);
		return (struct reply){MODEL_CRC, received};
	}
	open_model();
	return (struct reply){device.state == MODEL_READY ? NONE : MODEL_REFUSED, received};
}

static struct reply input_begin(const uint8_t *payload, uint32_t size)
{
	if (size != 4)
		return (struct reply){BAD_PAYLOAD, 0};
	if (number_at(payload) == 0 || begin_input(number_at(payload)))
		return (struct reply){TOO_LARGE, 0};
	return (struct reply){NONE, 0};
}

/* Leaving without a commit discards the model, which is incomplete. */
static void leave(uint8_t sequence)
{
	put_reply(sequence, (struct reply){0});
	if (device.model_load.is_open)
		memset(port.model, 0, 16);
	device.model_load = (struct load){0};
	device.is_frame_mode = false;
	put_line("m-ready", NULL);
	put_flush();
}

static void execute(const uint8_t *frame, uint32_t size)
{
	const uint8_t *payload = frame + HEAD;

	size -= HEAD + TAIL;
	switch (frame[0]) {
	case INPUT_BEGIN:
		put_reply(frame[1], input_begin(payload, size));
		break;
	case INPUT_DATA:
		put_reply(frame[1], append(&device.input_load, device.input, payload, size));
		break;
	case MODEL_BEGIN:
		put_reply(frame[1], model_begin(payload, size));
		break;
	case MODEL_DATA:
		put_reply(frame[1], append(&device.model_load, port.model, payload, size));
		break;
	case MODEL_COMMIT:
		put_reply(frame[1], model_commit(size));
		break;
	case LEAVE:
		leave(frame[1]);
		break;
	default:
		put_reply(frame[1], (struct reply){UNKNOWN_KIND, 0});
	}
}

void frames_receive(uint8_t byte)
{
	uint32_t size;

	if (byte) {
		if (device.used < FRAME_MAX_WIRE)
			device.line[device.used++] = byte;
		else
			device.is_too_long = true;
		return;
	}
	if (device.used == 0)
		return;
	size = device.is_too_long ? 0 : cobs_decode(device.line, device.used);
	device.used = 0;
	device.is_too_long = false;
	if (size < HEAD + TAIL || crc32(0, device.line, size - TAIL) != number_at(device.line + size - TAIL))
		put_reply(0, (struct reply){BAD_FRAME, 0});
	else
		execute(device.line, size);
}
