package nodestatus

import "testing"

func TestWorkloadsAreListedByNumber(t *testing.T) {
	if byID("2-1", "10-1") >= 0 || byID("2-2", "2-1") <= 0 || byID("2-1", "2-1") != 0 || byID("x", "y") >= 0 {
		t.Fatal("IDs aren't ordered by their numbers")
	}
}
