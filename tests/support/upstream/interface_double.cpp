/* MLPerf Tiny's interface board on standard input and output. */
#include "interface_parts.hpp"

#include "CLI/InterfaceMenu.hpp"

void CLI_Run();

int main()
{
	TX_BYTE_POOL pool;

	CLI_Init(&pool, nullptr);
	CLI_Run();
}
