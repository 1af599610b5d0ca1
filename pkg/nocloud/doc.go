// Package nocloud writes and reads the config disk of a virtual machine: a file system labelled cidata, which
// cloud-init's NoCloud data source reads at each boot. A Config becomes these files in its root:
//
//	meta-data       YAML: instance-id, local-hostname, public-keys
//	user-data       Config.UserData, byte for byte; empty without it, because NoCloud requires the file
//	network-config  YAML, network configuration version 2; absent without interfaces, and then DHCP is used
//	vendor-data     YAML, #cloud-config with write_files; absent without files
//
// The facts are from cloud-init's documentation of NoCloud and of "Networking config Version 2", and from its
// sources (cloudinit/sources/DataSourceNoCloud.py, cloudinit/net/__init__.py).
//
// The file system is ISO 9660 level 1 with Rock Ridge, which has the names: Linux' isofs mounts it. It is written by
// this package, because github.com/kdomanski/iso9660 v0.4.0 writes neither Rock Ridge nor Joliet, and
// github.com/diskfs/go-diskfs v1.9.4 collects the files in a temporary folder, where secrets would stay. The same
// Config always becomes the same bytes.
//
// UserData and the content of files may be secrets: they go to the given writer only, and no error shows them. The
// package opens no file and keeps nothing.
package nocloud
