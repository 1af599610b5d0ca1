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
	found := PowerButtons()
	for _, device := range found {
		go func() { failed(WatchPowerButton(device, pressed)) }()
	}
	if len(found) == 0 {
		failed(ErrNoPowerButton)
	}
}

// ErrNoPowerButton says that a machine has no power button that its kernel knows.
var ErrNoPowerButton = errors.New("cannot watch the power button: the machine has none")

// PowerButtons are the devices of the machine's power buttons.
func PowerButtons() []string {
	var found []string
	devices, _ := filepath.Glob("/sys/class/input/event*")
	for _, at := range devices {
		if ReadText(at+"/device/name") == "Power Button" {
			found = append(found, "/dev/input/"+filepath.Base(at))
		}
	}
	return found
}

// WatchPowerButton calls pressed whenever a power button is pressed. It returns only with an error.
func WatchPowerButton(device string, pressed func()) error {
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
