// Package kmod loads kernel modules as modprobe does, without a process: it reads the files that depmod writes
// (modules.dep, modules.alias, modules.builtin and modules.softdep), finds the modules of a name or of a device, and
// gives each module's file to the kernel after those that it needs.
//
// Files of modules must be uncompressed. It keeps nothing on the disk.
package kmod
