// Package vmguest is a real small guest for tests of virtual machines: Debian's cloud kernel, which bootstrap/guest
// fetches, and an initrd with one static Go program as process 1 (the package init below) and the kernel modules that
// it needs. It runs on amd64 only.
//
// The guest applies a NoCloud config disk (pkg/nocloud), prints each step on the console as a line that begins with
// "guest ", the last one "guest ready HOSTNAME ADDRESS" after the report that it is ready (nocloud.Report), and then
// answers HTTP on port 80:
//
//	GET /                                   the hostname
//	GET /boot                               its state: report.Boot, in JSON
//	GET, PUT /disk?offset=&size=            bytes of the data disk, flushed to the disk when written
//	GET /disk/size                          the data disk's size now, in bytes
//	POST /discard?offset=&size=             gives up a part of the data disk, all of it by default
//	POST /send?interface=eth0&count=1       sends the body as an ethernet frame
//	GET /fetch?url=                         fetches a page from the guest's network
//	POST /console?text=                     writes a line to the console
//	POST /eat?mib=                          uses memory and keeps it
//	POST /ignore-power                      ignores the power button from now on
//	POST /hang                              ignores everything from now on
//	POST /crash?how=                        ends within a second: panic (the default), reboot, off
//
// The data disk is the first writable virtio-blk disk that isn't the config disk; in its first 4096 bytes the guest
// counts its boots. Lines on the console are answered too: ping by pong, echo TEXT by TEXT, hostname. The power
// button flushes the disks and turns the guest off.
//
// A kernel panics forever, unless the command line has panic=1, with which it reboots after a second. Each command
// line needs console=ttyS0; under TCG also what SteadyClock returns. Boot starts QEMU by itself, for the guest's own
// tests.
package vmguest
