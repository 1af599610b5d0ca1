// Package machine is a machine for tests of the node's image: QEMU with disks, a network and a power switch. It has no hardware
// virtualization, so that it does the same everywhere. A machine is switched on, loses power, and is switched on again; its disks and its
// firmware's variables stay. Its console goes to a file for each boot, and its screen can be pictured.
package machine
