package guest

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestAHungFileSystemDoesNotKeepTheMachineFromEnding: what is written has 20 seconds to get to the disks, and a machine whose disks work ends as soon as
// they have it.
func TestAHungFileSystemDoesNotKeepTheMachineFromEnding(t *testing.T) {
	for takes, want := range map[time.Duration]time.Duration{0: 0, 3 * time.Second: 3 * time.Second, time.Hour: syncTime} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			within(syncTime, func() { time.Sleep(takes) })
			if took := time.Since(began); took != want {
				t.Errorf("a sync of %s: the machine ends after %s, want %s", takes, took, want)
			}
			time.Sleep(takes) // the hung one's goroutine ends
		})
	}
}
