// Package disks finds the disks of a booted machine, gives them names that stay, and decides what croftd may do with each. The decision
// is a pure function. The package writes to no disk: croftd formats, and looks again before it does.
//
// It owns the links in /dev/disk/by-id, as there is no udev.
package disks
