static int32_t read_file(void *user, uint8_t *destination, int32_t count)
{
    (void)user;
    return firmware_read(destination, count);
}

static int ended(int32_t failed)
{
    if (failed != 0) {
        say("it cannot be read: error ", failed);
        print(" of tw_jpeg.h\n");
        return 2;
    }
    say(", stack ", (int32_t)firmware_stack());
    print("\n");
    return 0;
}
