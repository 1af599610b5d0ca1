package host_test

import (
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/resources"
	"github.com/croft-edge/croft/pkg/resources/host"
)

// TestTheTrustInTheClockIsACondition, whose date is that of the last change of the trust, not of its reason.
func TestTheTrustInTheClockIsACondition(t *testing.T) {
	began := time.Unix(1000, 0)
	is := host.ClockSpec{Why: "nothing vouches for the time"}.Judged(host.ClockSpec{}, began)
	for i, next := range []struct {
		spec   host.ClockSpec
		status resources.Status
		reason string
		since  int
	}{
		{host.ClockSpec{Why: "the machine's clock was set back"}, resources.False, "TimeUnknown", 0},
		{host.ClockSpec{Trusted: true, Level: "stop"}, resources.True, "TimeKnown", 2},
		{host.ClockSpec{Trusted: true, Level: "remove"}, resources.True, "TimeKnown", 2},
		{host.ClockSpec{Why: "it jumped"}, resources.False, "TimeUnknown", 4},
	} {
		is = next.spec.Judged(is, began.Add(time.Duration(i+1)*time.Second))
		c, there := resources.Find(is.Conditions, host.Trusted)
		if !there || c.Status != next.status || c.Reason != next.reason || c.Message != next.spec.Why || !c.Since.Equal(began.Add(time.Duration(next.since)*time.Second)) {
			t.Errorf("step %d: the condition is %+v", i+1, c)
		}
	}
}
