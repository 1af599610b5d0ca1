package console

// What the tests look at from outside.
var (
	Environment = environment
	ParseStat   = parseStat
)
