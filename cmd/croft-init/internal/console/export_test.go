package console

// Exported for the external tests.
var (
	Environment = environment
	ParseStat   = parseStat
)
