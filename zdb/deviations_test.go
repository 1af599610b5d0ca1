package zdb_test

// at is a step of a suite.
type at struct {
	suite string
	step  int
}

// deviation is a reply that differs on purpose from the recorded server's. docs/zdb-server.md tells users of each.
type deviation struct {
	why string
	// whole is the name of a command that the transcript shortens: short it isn't
	// known, whole it is answered as recorded.
	whole string
	// reply is this server's reply.
	reply *string
	// lines are those of INFO or NSINFO that say something else; "" is one that
	// isn't there.
	lines map[string]string
	// closed: the connection is closed, where it wasn't.
	closed bool
}

func is(reply string) *string { return &reply }

const (
	whyFlush    = "FLUSH really empties"
	whyNegative = "a limit below 0 is refused, so this namespace has none"
	whyShort    = "the shortened names of seven commands aren't known, and count"
	whyStuck    = "a request that can't be read ends the connection: where the next one begins isn't known"
	whyCount    = "DEL lowers the counters at once"
	whyRemoved  = "clients in a namespace that was removed are told, and disconnected"
)

var stuck = deviation{why: whyStuck, reply: is(""), closed: true}

// deviations are by version and step.
var deviations = map[string]map[at]deviation{
	"v2.0.7": {
		{"user-basic", 83}: {whole: "GET"}, {"user-basic", 84}: {whole: "SET"}, {"user-basic", 85}: {whole: "GET"},
		{"user-basic", 86}: {whole: "DATA"}, {"user-basic", 87}: {whole: "PING"}, {"user-basic", 88}: {whole: "TIME"},
		{"user-basic", 89}: {whole: "EXISTS"},
		{"user-basic", 98}: {why: whyShort, lines: map[string]string{"commands_failed": "14"}},

		{"user-scan", 26}: {why: "it is no cursor of an entry", reply: is("-Invalid key format\r\n")},

		{"namespaces", 63}:  {why: whyNegative, reply: is("-Invalid value\r\n")},
		{"namespaces", 64}:  {why: whyNegative, lines: map[string]string{"data_limits_bytes": "0", "space_available": ""}},
		{"namespaces", 65}:  {why: whyNegative, reply: is("$1\r\nr\r\n")},
		{"namespaces", 96}:  {why: whyFlush, reply: is("$-1\r\n")},
		{"namespaces", 97}:  {why: whyFlush, reply: is(":0\r\n")},
		{"namespaces", 102}: {why: whyFlush, lines: flushed},
		{"namespaces", 184}: {why: whyFlush, lines: flushed},

		{"payload", 7}:     {why: "the client is told why before it is disconnected", reply: is("-Payload too big\r\n"), closed: true},
		{"debug-build", 5}: {why: "keys are in the order of SCAN, not of a hash table", reply: is("*2\r\n$1\r\n0\r\n*3\r\n$5\r\napple\r\n$7\r\napricot\r\n$2\r\nap\r\n")},

		{"protocol-argc0", 1}:   {why: whyStuck, reply: is("-Missing arguments\r\n"), closed: true},
		{"protocol-argc0", 2}:   stuck,
		{"protocol-argcbig", 1}: {why: whyStuck, reply: is("-Too many arguments\r\n"), closed: true},
		{"protocol-argcbig", 2}: stuck,
		{"protocol-intarg", 1}:  {why: whyStuck, reply: is("-Malformed query string\r\n"), closed: true},
		{"protocol-intarg", 2}:  stuck,
		{"protocol-negargc", 1}: {why: "it isn't memory that is missing", reply: is("-Missing arguments\r\n"), closed: true},
	},
	"v1-2020-03": {
		{"user-basic", 83}: {whole: "GET"}, {"user-basic", 84}: {whole: "SET"}, {"user-basic", 85}: {whole: "GET"},
		{"user-basic", 86}: {whole: "DEL"}, {"user-basic", 87}: {whole: "PING"}, {"user-basic", 88}: {whole: "TIME"},
		{"user-basic", 89}: {whole: "EXISTS"},
		{"user-basic", 98}: {why: whyShort, lines: map[string]string{"commands_failed": "28"}},

		{"namespaces", 63}:  {why: whyNegative, reply: is("-Invalid value\r\n")},
		{"namespaces", 64}:  {why: whyNegative, lines: map[string]string{"data_limits_bytes": "0"}},
		{"namespaces", 65}:  {why: whyNegative, reply: is("$1\r\nr\r\n")},
		{"namespaces", 131}: {why: whyRemoved, reply: is("-Your active namespace is not available anymore (probably removed).\r\n"), closed: true},
		{"namespaces", 132}: {why: whyRemoved, reply: is(""), closed: true},

		{"seq-basic", 32}: {why: whyCount, reply: is(":4\r\n")},
		{"seq-basic", 41}: {why: whyCount, lines: map[string]string{"entries": "5", "data_size_bytes": "35"}},

		{"rotate-user", 19}: {why: "the cursor says which file the key is in", reply: is("$15\r\n\x04\x03\x00\x40\x0d\x03\x00\x1b\x00\x00\x00\xde\x17\x56\xd7\r\n")},
		{"rotate-seq", 23}: {why: "RSCAN leaves no key out", reply: is("*2\r\n$15\r\n\x04\x03\x00\x40\x0d\x03\x00\x1b\x00\x00\x00\xde\x17\x56\xd7\r\n" +
			"*1\r\n*3\r\n$4\r\n\x06\x00\x00\x00\r\n:200000\r\n:1580000006\r\n")},

		{"payload", 7}:     {why: "the client is told why before it is disconnected", reply: is("-Payload too big\r\n"), closed: true},
		{"debug-build", 5}: {why: "keys are in the order of SCAN, not of a hash table", reply: is("*2\r\n$1\r\n0\r\n*3\r\n$5\r\napple\r\n$7\r\napricot\r\n$2\r\nap\r\n")},

		{"protocol-argc0", 1}:   {why: whyStuck, reply: is("-Missing arguments\r\n"), closed: true},
		{"protocol-argc0", 2}:   stuck,
		{"protocol-argcbig", 1}: {why: whyStuck, reply: is("-Too many arguments\r\n"), closed: true},
		{"protocol-argcbig", 2}: stuck,
		{"protocol-intarg", 1}:  {why: whyStuck, reply: is("-Malformed query string\r\n"), closed: true},
		{"protocol-intarg", 2}:  stuck,
		{"protocol-negargc", 1}: {why: "it isn't memory that is missing", reply: is("-Missing arguments\r\n"), closed: true},
	},
}

var flushed = map[string]string{
	"entries": "1", "data_size_bytes": "1", "index_size_bytes": "65", "index_size_kb": "0.06",
	"next_internal_id": "0x100000000000000", "data_current_offset": "48",
}
