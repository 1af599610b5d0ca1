package workload_test

import (
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/workload"
)

func TestHashText(t *testing.T) {
	h := workload.Hash{0: 0x0a, 31: 0xff}
	text := h.Hex()
	if len(text) != 64 || !strings.HasPrefix(text, "0a00") || !strings.HasSuffix(text, "ff") {
		t.Errorf("the text is %q", text)
	}
	if back, err := workload.ParseHash(text); err != nil || back != h {
		t.Errorf("read back: %x, %v", back, err)
	}
	for _, bad := range []string{"", text[1:], text + "00", strings.ToUpper(text), "zz" + text[2:]} {
		if _, err := workload.ParseHash(bad); err == nil {
			t.Errorf("%q is taken for a hash", bad)
		}
	}
}
