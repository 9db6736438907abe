
/* The callback by which the model reads its file: replace the array by your SD card, SPI Flash or file system. */
int @{model}_read_weights(void *context, uint32_t offset, void *destination, uint32_t bytes)
{
    (void)context;
    memcpy(destination, @{model}_file + offset, bytes);
    return 0;
}
