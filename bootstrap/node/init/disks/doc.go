// Package disks knows the disks of a booted node: what they are, by which names that stay, and which of them become pools. It decides
// purely; what it reads are sysfs and the beginnings of disks, and all that it changes are links in /dev/disk/by-id.
package disks
