package seen_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/limit/seen"
)

func TestReachedLimitsAreShown(t *testing.T) {
	one := limit.Limit{Name: "shown", Per: "user", Each: 1}
	s := one.Shares()
	for range 4 {
		_, _ = s.Take("a", 1)
	}
	want := "# HELP sample_total How often a limit has turned something away, by its name in docs/security.md.\n" +
		"# TYPE sample_total counter\nsample_total{limit=\"shown\"} 3\n"
	if err := testutil.CollectAndCompare(seen.Collector("sample_total"), strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
