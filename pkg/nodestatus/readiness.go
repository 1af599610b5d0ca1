package nodestatus

// Level classifies a check's outcome.
type Level string

// The levels. Only Failing makes a node not ready to take new reservations.
const (
	Good    Level = "ok"
	Warning Level = "warning"
	Failing Level = "failing"
)

// Check is one check and its outcome.
type Check struct {
	Name   string `json:"name"`
	Level  Level  `json:"level"`
	Detail string `json:"detail"`
}

// Readiness is the answer of /readyz.
type Readiness struct {
	Ready  bool    `json:"ready"`
	Checks []Check `json:"checks"`
}

// Pass is a check that found nothing wrong.
func Pass(name, detail string) Check { return Check{Name: name, Level: Good, Detail: detail} }

// Warn is a check that found something for the operator.
func Warn(name, detail string) Check { return Check{Name: name, Level: Warning, Detail: detail} }

// Fail is a check that keeps the node from taking new reservations.
func Fail(name, detail string) Check { return Check{Name: name, Level: Failing, Detail: detail} }
