/* What the menu of MLPerf Tiny's interface board needs of its operating system, card, player and board,
 * so that InterfaceMenu.cpp and Menu.cpp run on standard input and output. */
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <string>

typedef unsigned int UINT;
typedef unsigned long ULONG;
typedef void VOID;
typedef char CHAR;
typedef unsigned char UCHAR;
struct TX_BYTE_POOL {};
struct TX_MUTEX {
	int state;
};
struct TX_QUEUE {
	std::deque<std::string *> lines;
};
#define TX_NULL 0
#define TX_SUCCESS 0
#define TX_QUEUE_EMPTY 1
#define TX_NO_WAIT 0
#define TX_WAIT_FOREVER 1
#define TX_1_ULONG 1
#define TX_TIMER_TICKS_PER_SECOND 100
inline UINT tx_mutex_create(TX_MUTEX *, char *, UINT) { return TX_SUCCESS; }
inline UINT tx_mutex_get(TX_MUTEX *, ULONG) { return TX_SUCCESS; }
inline UINT tx_mutex_put(TX_MUTEX *) { return TX_SUCCESS; }
inline UINT tx_byte_allocate(TX_BYTE_POOL *, VOID **, ULONG, ULONG) { return TX_SUCCESS; }
inline UINT tx_queue_create(TX_QUEUE *, char *, UINT, VOID *, ULONG) { return TX_SUCCESS; }
inline UINT tx_queue_receive(TX_QUEUE *queue, std::string **line, ULONG)
{
	*line = queue->lines.empty() ? nullptr : queue->lines.front();
	if (!queue->lines.empty())
		queue->lines.pop_front();
	return TX_SUCCESS;
}

struct UART_HandleTypeDef {
	struct {
		int BaudRate;
	} Init;
};
struct TIM_HandleTypeDef {};
inline UART_HandleTypeDef huart3{{115200}};
inline TIM_HandleTypeDef htim2;
#define __HAL_TIM_SET_COUNTER(timer, count) (void)(timer)
#define __HAL_TIM_GET_COUNTER(timer) 0
inline void SaveBaudRateToFlash(int) {}
inline void NVIC_SystemReset() { exit(0); }

class IDataSource {
public:
	explicit IDataSource(const std::string &name) : name(name) {}
	virtual ~IDataSource() {}
	const std::string &GetName() const { return name; }

private:
	std::string name;
};

namespace IO
{
class Uart {
public:
	Uart(TX_BYTE_POOL &, UART_HandleTypeDef *) {}
	const std::string *ReadUntil(const std::string &end)
	{
		std::string *text = new std::string;
		for (int character; (character = getchar()) != EOF;) {
			if (end[0] == character)
				return text;
			text->push_back((char)character);
		}
		exit(0);
	}
	void SendString(const std::string &text)
	{
		fwrite(text.data(), 1, text.size(), stdout);
		fflush(stdout);
	}
};
class FileSystem {
public:
	void ListDirectory(const std::string &, TX_QUEUE *queue) { queue->lines.push_back(nullptr); }
	IDataSource *OpenFile(const std::string &name) { return new IDataSource(name); }
};
}

namespace Test
{
class DeviceUnderTest {
public:
	void SendCommand(const std::string &command, TX_QUEUE *queue)
	{
		if (command == "name")
			queue->lines.push_back(new std::string("m-name-dut-[unspecified]"));
		else if (command == "db load 10")
			queue->lines.push_back(new std::string("m-[Expecting 10 bytes]"));
		else
			queue->lines.push_back(new std::string("e-[Unknown command: " + command + "]"));
		queue->lines.push_back(new std::string("m-ready"));
		queue->lines.push_back(nullptr);
	}
	void play()
	{
		for (count = 0; count < 10; ++count) {
			begins[count] = count * 3200;
			ends[count] = begins[count] + 250 + count % 3;
		}
	}
	void StartRecordingDetections() { count = 0; }
	void RecordDetection() {}
	void RecordDutycycleStart() {}
	void RecordDutycycleStop() {}
	uint32_t *GetDetections() { return detections; }
	uint32_t GetNumDetections() { return 2; }
	uint32_t *GetDutycycleRisingEdges() { return begins; }
	uint32_t GetNumDutycycleRisingEdges() { return count; }
	uint32_t *GetDutycycleFallingEdges() { return ends; }
	uint32_t GetNumDutycycleFallingEdges() { return count; }

private:
	uint32_t detections[2] = {12, 1044}, begins[10] = {}, ends[10] = {}, count = 0;
};
inline DeviceUnderTest device;
}

namespace Audio
{
enum PlayerResult { OK, SUCCESS = OK, ERROR };
struct WaveSource {
	explicit WaveSource(IDataSource &source) : name(source.GetName()) {}
	std::string name;
};
class WaveSink {
public:
	PlayerResult Play(WaveSource &source)
	{
		if (source.name != "short.wav")
			return ERROR;
		Test::device.play();
		return OK;
	}
};
}

class ResourceManager {
public:
	static IO::FileSystem &GetFileSystem()
	{
		static IO::FileSystem files;
		return files;
	}
	static Audio::WaveSink &GetWaveSink()
	{
		static Audio::WaveSink sink;
		return sink;
	}
	static Test::DeviceUnderTest &GetDeviceUnderTest() { return Test::device; }
};
