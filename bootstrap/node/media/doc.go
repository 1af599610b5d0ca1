// Package media makes the media that a node boots from, of an image folder with vmlinuz, initrd, root.squashfs,
// image.json and perhaps image.json.sig:
//
//   - croft.iso boots from a CD, and written to a USB stick, by BIOS and by UEFI. It has one image, in slot a.
//   - croft.img is a disk to write to a USB stick, an SSD or a virtual disk, which boots by BIOS and by UEFI. It has the
//     image in slot a, room for another in slot b, and a small partition for the node's settings (GPT name croft-config,
//     label CROFTCONFIG).
//   - boot.ipxe is a script for iPXE, which fetches the image from a server.
//
// Nothing is signed for Secure Boot, which must be off. The same folder, tools and Config make the same bytes.
//
// # How GRUB boots
//
// GRUB takes the file system labelled CROFT-BOOT, that of the disk that it was started from if there are several, and
// /boot/grub/grub.cfg on it. The image is in /croft/SLOT, SLOT being a or b. GRUB adds to the kernel's command line, in
// this order: the consoles, croft.slot=SLOT, croft.trial for a trial, croft.recovery from the menu, the image's own
// arguments, and those of the person who runs the node. A slot whose kernel or initrd is missing, or whose kernel can't
// be loaded, is passed over for the other one. When an initrd can't be read whole, GRUB makes the other slot a trial and
// starts the machine again; when no slot boots, it does so after a minute.
//
// The image's own arguments are the variable cmdline in /croft/SLOT/cmdline, an environment block of GRUB (package
// grubenv) that may be missing: who puts an image in a slot writes it.
//
// On croft.img, /boot/grub/grubenv is an environment block too, with these variables:
//
//   - slot is the slot to boot, a or b.
//   - trial is a slot to boot once. GRUB removes the variable before it boots the slot; where that can't be written, it
//     boots no trial.
//   - args are further arguments for the kernel.
//
// # Arguments for the kernel that stay
//
// A person adds them on croft.img in one of two ways: the variable args in /boot/grub/grubenv, such as with
// "grub-editenv boot/grub/grubenv set args='croft.farm=7'", or a file /boot/grub/croft.cfg with commands of GRUB, such as
//
//	set args="$args croft.farm=7"
//
// which may change the variable timeout (seconds, 2 by default) too. The croft.iso can't be changed: there the key e in
// the menu changes the arguments of one boot.
//
// # iPXE
//
// boot.ipxe names its files relative to itself. iPXE puts root.squashfs, image.json and image.json.sig into the folder
// /image of the initramfs; older versions make no folders there, so the initrd must have /image. By UEFI this needs a
// version that hands the kernel one initrd with these files in it (initrd.magic, https://ipxe.org/cmd/initrd). Debian
// 12's ipxe.efi doesn't: process 1 starts and finds no files in /image; by BIOS Debian 12's iPXE does. The script tells
// how to add parameters, and how a second image on the server is tried first.
package media
