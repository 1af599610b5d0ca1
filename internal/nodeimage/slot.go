package nodeimage

import "path/filepath"

// What stage 1 tells init, in its environment.
const (
	// SlotVariable is the slot of the running image, DeviceVariable the device of the boot medium; both are empty where the network
	// brought the image.
	SlotVariable   = "CROFT_IMAGE_SLOT"
	DeviceVariable = "CROFT_IMAGE_DEVICE"
	// KeyVariable is the key that images must be signed by, as EncodeKey writes it; unset where none is built in.
	KeyVariable = "CROFT_IMAGE_KEY"
)

// Slots are the places for images on a boot medium.
func Slots() []string { return []string{"a", "b"} }

// Other is the slot that isn't that one.
func Other(slot string) string {
	if slot == Slots()[0] {
		return Slots()[1]
	}
	return Slots()[0]
}

// SlotFolder is a slot's folder on a boot medium.
func SlotFolder(slot string) string { return filepath.Join("croft", slot) }
