#define CONFIG_IDF_TARGET "double"
