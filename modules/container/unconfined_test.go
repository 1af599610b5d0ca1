package container

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/container/spec"
)

// A kernel's AppArmor that isn't used is warned of once, any other kernel's isn't.
func TestAppArmorThatIsNotUsedIsWarnedOf(t *testing.T) {
	for lack, lines := range map[string]int{"no apparmor_parser": 1, "": 0} {
		var log bytes.Buffer
		warnUnconfined(zerolog.New(&log), spec.Host{NoAppArmor: lack})
		if strings.Count(log.String(), "\n") != lines || !strings.Contains(log.String(), lack) {
			t.Errorf("with %q the log has %s", lack, &log)
		}
	}
}
