/* Arduino's build includes its header before a sketch, and calls its functions in this order. */
#include "Arduino.h"
#include SKETCH

int main()
{
  setup();
  for (;;)
    loop();
}
