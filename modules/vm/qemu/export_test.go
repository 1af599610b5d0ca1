package qemu

// Firmware is the probe's guest.
func Firmware() ([]byte, error) { return firmware() }
