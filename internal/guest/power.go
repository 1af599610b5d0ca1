package guest

import (
	"encoding/binary"
	"os"
	"path/filepath"

	"github.com/pkg/errors"
)

// Members of the kernel's struct input_event.
const (
	eventBytes = 24
	keyEvent   = 1   // EV_KEY
	powerKey   = 116 // KEY_POWER
	keyPressed = 1
)

// WatchPower calls pressed, on a goroutine of its own, whenever the machine's power button is pressed. failed is told why a
// button isn't watched.
func WatchPower(pressed func(), failed func(error)) {
	devices, _ := filepath.Glob("/sys/class/input/event*")
	found := false
	for _, at := range devices {
		if ReadText(at+"/device/name") == "Power Button" {
			found = true
			go func() { failed(watchButton("/dev/input/"+filepath.Base(at), pressed)) }()
		}
	}
	if !found {
		failed(errors.Errorf("cannot watch the power button: the machine has none"))
	}
}

func watchButton(device string, pressed func()) error {
	f, err := os.Open(device)
	if err != nil {
		return errors.Wrap(err, "cannot watch the power button")
	}
	defer f.Close()
	event := make([]byte, eventBytes)
	for {
		if _, err := f.Read(event); err != nil {
			return errors.Wrap(err, "cannot watch the power button")
		}
		kind, code, value := binary.LittleEndian.Uint16(event[16:]), binary.LittleEndian.Uint16(event[18:]), binary.LittleEndian.Uint32(event[20:])
		if kind == keyEvent && code == powerKey && value == keyPressed {
			pressed()
		}
	}
}
