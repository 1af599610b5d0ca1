// Package grubenv reads and writes GRUB's environment blocks: files of exactly 1024 bytes with variables that GRUB's
// commands load_env and save_env, and the program grub-editenv, read and write too.
//
// A file is only ever changed where it lies: GRUB knows the file by its blocks on the disk, and writes to these. So
// Write makes one write of 1024 bytes at the start of the file that is there, and syncs it. It makes no new file.
// Nothing else in croft writes the file; two writers at a time are the caller's affair.
package grubenv
